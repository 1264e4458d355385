// exp and log of R20 as kernels have them, against those of the host: every bit, at arguments of every size.

#include "cuda/device/kernels/formats/elementary64.cuh"

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "common/base/philox.hpp"
#include "common/step/portable_math64.hpp"

namespace elementary64_test {

namespace {

using namespace zeroproof;
namespace device = zeroproof::cuda::device;

std::uint64_t words(double value) {
  return value != value ? 1U : std::bit_cast<std::uint64_t>(value);
}

void expect_equal(double x) {
  CAPTURE(x);
  CHECK(words(device::exp64(x)) == words(portable_math64::exp(x)));
  CHECK(words(device::log64(x)) == words(portable_math64::log(x)));
}

}  // namespace

TEST_CASE("a kernel's exp and log have the bits of the host's") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double edge :
       {0.0, -0.0, 1.0, 0x1.6a09e667f3bcdp+0, 710.0, -746.0, 0x1p-1022, 0x1p-1074,
        std::numeric_limits<double>::max(), infinity, -infinity, std::nan("")}) {
    for (const double x : {edge, std::nextafter(edge, infinity), std::nextafter(edge, -infinity)}) {
      expect_equal(x);
      expect_equal(-x);
    }
  }
  const Philox philox(26, 2);
  int different = 0;
  for (std::uint64_t i = 0; i < 300000; ++i) {
    const std::uint32_t w[] = {philox.word(4 * i), philox.word(4 * i + 1), philox.word(4 * i + 2)};
    const double any = std::bit_cast<double>(std::uint64_t{w[0]} << 32 | w[1]);
    const double within = (static_cast<double>(w[2]) - 0x1p31) * 0x1.68p-22;  // -720 .. 720
    for (const double x : {any, within}) {
      if (words(device::exp64(x)) != words(portable_math64::exp(x))) ++different;
      if (words(device::log64(x)) != words(portable_math64::log(x))) ++different;
    }
  }
  CHECK(different == 0);
}

}  // namespace elementary64_test
