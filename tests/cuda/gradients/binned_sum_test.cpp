// Binned sums (R11): against the reference, and the same bits in any order and any merging.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/expect_error.hpp"

namespace binned_sum_test {

namespace {

using namespace zeroproof;
using tests::expect_error;
namespace host = zeroproof::cuda::host;

const Exec exec{};
constexpr float inf = std::numeric_limits<float>::infinity();

struct Bins {
  explicit Bins(std::size_t numel) : hi(numel), lo(numel), top(numel) {}
  BinnedSum view() { return {hi, lo, top}; }
  bool operator==(const Bins&) const = default;
  std::vector<std::int32_t> hi, lo;
  std::vector<std::uint8_t> top;
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// leaves[j][i]: leaf j of element i, of every kind of size.
std::vector<std::vector<float>> some_leaves(std::size_t count, std::size_t numel) {
  const Philox philox(5);
  std::vector<std::vector<float>> leaves(count, std::vector<float>(numel));
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t i = 0; i < numel; ++i) {
      const std::uint32_t word = philox.word(j * numel + i);
      const int kind = static_cast<int>(i % 7);
      float x = philox.bell(1'000'000 + j * numel + i);
      if (kind == 0) x = std::bit_cast<float>(word & 0xFF7FFFFFU);         // any finite number
      if (kind == 1) x = std::ldexp(x, static_cast<int>(word % 60) - 30);  // over several bins
      if (kind == 2) x = std::bit_cast<float>(word & 0x80FFFFFFU);         // around the subnormals
      if (kind == 3 && word % 5 == 0) x = word % 2 == 0 ? 0.0F : -0.0F;
      if (kind == 4) x = std::copysign(0x1.fffffep127F, x);  // the largest: may overflow
      if (kind == 5 && word % 97 == 0)
        x = word % 2 == 0 ? inf : std::numeric_limits<float>::quiet_NaN();
      if (kind == 6)
        x = std::ldexp(std::copysign(1.0F, x),
                       static_cast<int>(word % 277) - 149);  // powers of two
      leaves[j][i] = x;
    }
  }
  return leaves;
}

std::vector<float> finished(Bins& bins) {
  std::vector<float> result(bins.hi.size());
  host::binned_finish(exec, bins.view(), result);
  return result;
}

}  // namespace

TEST_CASE("binned: the integers and the sum of the reference, for every size of number") {
  constexpr std::size_t numel = 7 * 301;
  for (const std::size_t count : {0, 1, 2, 3, 16, 128}) {
    CAPTURE(count);
    Bins bins(numel), want(numel);
    for (const std::vector<float>& leaf : some_leaves(count, numel)) {
      host::binned_deposit(exec, leaf, bins.view());
      reference::binned_deposit(exec, leaf, want.view());
    }
    const std::vector<float> got = finished(bins);
    std::vector<float> sums(numel);
    reference::binned_finish(exec, want.view(), sums);
    int wrong = 0;
    for (std::size_t i = 0; i < numel; ++i) {
      const bool integers = bins.hi[i] == want.hi[i] && bins.lo[i] == want.lo[i];
      const bool all =
          bins.top[i] == want.top[i] && (integers || want.top[i] == 255) && same(got[i], sums[i]);
      wrong += all ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  // 2^54 + 2^30 + 1: just above the middle of two fp32 numbers, and exactly on it after a rounding to fp64.
  Bins middle(1);
  middle.hi[0] = (1 << 30) + (1 << 6);
  middle.lo[0] = 1;
  middle.top[0] = 1;
  CHECK(finished(middle)[0] == 0x1p-95F + 0x1p-118F);
}

TEST_CASE("binned: any order and any merging gives the same bits") {
  constexpr std::size_t numel = 20'000;  // more than one block
  constexpr std::size_t count = 24;
  const std::vector<std::vector<float>> leaves = some_leaves(count, numel);
  Bins in_order(numel);
  for (const std::vector<float>& leaf : leaves) host::binned_deposit(exec, leaf, in_order.view());
  const std::vector<float> want = finished(in_order);
  const Philox philox(9);
  for (std::uint64_t round = 0; round < 6; ++round) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    for (std::size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[philox.below(round * 100 + i, i)]);
    std::vector<Bins> parts(round + 1, Bins(numel));
    const Exec threads{static_cast<int>(round % 3) + 1, Isa::best};
    for (std::size_t i = 0; i < count; ++i) {
      host::binned_deposit(threads, leaves[order[i]], parts[i % parts.size()].view());
    }
    while (parts.size() > 1) {
      Bins last = std::move(parts.back());
      parts.pop_back();
      const Bins before = last;
      host::binned_merge(threads, last.view(), parts[philox.below(round * 7, parts.size())].view());
      CHECK(last == before);
    }
    const std::vector<float> got = finished(parts.front());
    int wrong = 0;
    for (std::size_t i = 0; i < numel; ++i) wrong += same(got[i], want[i]) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("binned: fields of other lengths are errors") {
  Bins three(3), four(4);
  std::vector<float> values(3);
  const auto refused = [](const auto& call) { expect_error(ErrorCode::invalid_argument, call); };
  const BinnedSum mixed_lo{three.hi, four.lo, three.top};
  const BinnedSum mixed_top{three.hi, three.lo, four.top};
  refused([&] { host::binned_deposit(exec, values, four.view()); });
  refused([&] { host::binned_deposit(exec, values, mixed_lo); });
  refused([&] { host::binned_deposit(exec, values, mixed_top); });
  refused([&] { host::binned_merge(exec, three.view(), four.view()); });
  refused([&] { host::binned_merge(exec, mixed_top, three.view()); });
  refused([&] { host::binned_finish(exec, four.view(), values); });
}

}  // namespace binned_sum_test
