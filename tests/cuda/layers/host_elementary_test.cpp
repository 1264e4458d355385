#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/layers/elementary_support.hpp"

namespace host_elementary_test {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

namespace {

const ElementaryImplementations implementations = {host::elementary_exp, host::elementary_tanh,
                                                   host::elementary_sigmoid, host::elementary_erf,
                                                   host::elementary_log};

}  // namespace

TEST_CASE("host: elementary functions have known values, and reject mismatched buffers") {
  for (const Exec& exec : every_exec()) {
    check_known_values(implementations, exec);
    check_elementary_refused(implementations, exec);
  }
}

TEST_CASE(
    "host: elementary functions have the same bits on every instruction set, any number of "
    "threads, in "
    "place") {
  std::vector<float> x(70001);
  device_test::fill(Span<float>(x), 3);
  for (ElementaryExpFn* implementation : implementations) {
    std::vector<float> expected(x.size());
    implementation({1, Isa::x86_64}, x, expected);
    for (const Exec& exec : every_exec()) {
      std::vector<float> y = x;
      implementation(exec, y, y);
      std::int64_t differ = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        differ += device_test::same(y[i], expected[i]) ? 0 : 1;
      CHECK(differ == 0);
    }
  }
}

}  // namespace host_elementary_test
