// Binned sums on a device (R11): the kernels over pieces and the implementations, against the
// reference.

#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "tests/cuda/device/binned_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace binned_device_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using tests::expect_error;
using verification::on_device;

constexpr DType formats[] = {DType::fp32, DType::bf16, DType::fp16};

}  // namespace

TEST_CASE("device bins: gradients of every format at any alignment") {
  if (!usable()) return;
  const Placement places[] = {{true, 0}, {false, 0}, {true, 3}, {false, 1}};
  for (const Placement bins : places) {
    for (const Placement leaf : places) {
      BinnedWorld world(odd_numels(), bins, leaf);
      DeviceSums sums = world.sums();
      world.check(sums);  // of no gradient
      DeviceSums added = world.sums();
      for (std::size_t j = 0; j < 6; ++j) {
        world.add_leaf(formats[j % 3]);
        world.deposit(j, added);
      }
      world.check(added);
    }
  }
}

TEST_CASE("device bins: any order and merging, up to 128 gradients") {
  if (!usable()) return;
  for (const std::size_t count : {2, 3, 17, 128}) {
    CAPTURE(count);
    BinnedWorld world({1, 70, 2051}, {true, 0}, {true, 0});
    for (std::size_t j = 0; j < count; ++j) world.add_leaf(formats[hash(j, 9) % 3]);
    for (const std::size_t groups : {1, 2, 5}) {
      std::vector<DeviceSums> sums;
      for (std::size_t g = 0; g < groups; ++g) sums.push_back(world.sums());
      for (std::size_t n = 0; n < count; ++n) {
        const std::size_t j = groups == 2 ? count - 1 - n : n;
        world.deposit(j, sums[hash(j, groups) % groups]);
      }
      for (std::size_t g = 1; g < groups; ++g) {
        const bool down = groups == 5;  // one after another, or all into the first
        const std::size_t from = down ? groups - g : g, into = down ? groups - g - 1 : 0;
        enqueue_binned_merge(world.list.get(), sums[from].bins(), sums[into].bins());
      }
      world.check(sums.front());
    }
  }
}

TEST_CASE("device bins: a merge does not change the other sum") {
  if (!usable()) return;
  BinnedWorld world({3, 70, 1029}, {true, 0}, {true, 0});
  DeviceSums into = world.sums(), from = world.sums();
  world.add_leaf(DType::fp32);
  world.deposit(0, from);
  enqueue_binned_merge(world.list.get(), from.bins(), into.bins());
  world.check(from);
  world.check(into);
}

TEST_CASE("device bins: 128 of the largest and of the smallest, with and without cancellation") {
  if (!usable()) return;
  const Values extremes = {0x1.fffffep127F,  -0x1.fffffep127F, 0x1p-149F, -0x1p-149F,
                           0x0.fffffep-126F, 0x1p-126F,        1.0F,      0x1.fffffep-1F,
                           0x1p-5F,          0x1p-102F,        0x1p-101F, -0x1.8p-30F};
  const auto numel = static_cast<std::int64_t>(extremes.size());
  for (const int signs : {0, 1, 2}) {
    std::vector<std::int32_t> hi(extremes.size()), lo(extremes.size());
    std::vector<std::uint8_t> top(extremes.size());
    const BinnedSum sum{hi, lo, top};
    std::vector<Values> leaves(extremes.size());
    for (int j = 0; j < 128; ++j) {
      const bool minus = signs == 1 ? j % 2 == 1 : signs == 2 && j == 0;
      Values leaf = extremes;
      for (std::size_t i = 0; i < leaf.size(); ++i) {
        if (minus) leaf[i] = -leaf[i];
        leaves[i].push_back(leaf[i]);
      }
      on_device<binned_deposit>(exec, leaf, sum);
    }
    Values result(extremes.size());
    on_device<binned_finish>(exec, sum, result);
    for (std::int64_t i = 0; i < numel; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const ExactSum expected = reference_sum(leaves[k]);
      CAPTURE(extremes[k]);
      CHECK(hi[k] == expected.hi);
      CHECK(lo[k] == expected.lo);
      CHECK(top[k] == expected.top);
      CHECK(same(result[k], expected.finished));
    }
  }
}

TEST_CASE("device bins: a sum is rounded once") {
  if (!usable()) return;
  // 2^54 + 2^30 + 1: just above the middle of two fp32 numbers, and exactly on it in fp64.
  std::vector<std::int32_t> hi{(1 << 30) + (1 << 6)}, lo{1};
  std::vector<std::uint8_t> top{1};
  Values result(1);
  on_device<binned_finish>(exec, {hi, lo, top}, result);
  CHECK(result[0] == 0x1p-95F + 0x1p-118F);
}

TEST_CASE("device bins: the implementations, in every layout") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offsets) {
    if (numel > 2000) return;
    Place<float> first(numel, offsets[0]), second(numel, offsets[1]), result(numel, offsets[2]);
    const auto fill_grad = [&](Place<float>& leaf, std::uint64_t j) {
      for (std::size_t i = 0; i < leaf.span().size(); ++i) {
        leaf.span()[i] = std::bit_cast<float>(leaf_bits(DType::fp32, i, j));
      }
    };
    fill_grad(first, 0);
    fill_grad(second, 1);
    Place<std::int32_t> hi(numel, offsets[2]), lo(numel, offsets[3]), hi2(numel, offsets[3]),
        lo2(numel, offsets[4]);
    Place<std::uint8_t> top(numel, offsets[4]), top2(numel, offsets[0]);
    const BinnedSum sum{hi.span(), lo.span(), top.span()},
        other{hi2.span(), lo2.span(), top2.span()};
    for (const BinnedSum& s : {sum, other}) {
      std::fill(s.hi.begin(), s.hi.end(), 0);
      std::fill(s.lo.begin(), s.lo.end(), 0);
      std::fill(s.top.begin(), s.top.end(), std::uint8_t{0});
    }
    on_device<binned_deposit>(exec, first.span(), sum);
    on_device<binned_deposit>(exec, second.span(), other);
    on_device<binned_merge>(exec, other, sum);
    on_device<binned_deposit>(exec, first.span(), sum);
    on_device<binned_finish>(exec, sum, result.span());
    result.check([&](std::int64_t i) {
      return reference_sum({first[i], second[i], first[i]}).finished;
    });
    on_device<binned_finish>(exec, other, result.span());
    result.check([&](std::int64_t i) { return reference_sum({second[i]}).finished; });
  });
}

TEST_CASE("device bins: invalid formats and sizes are refused") {
  if (!usable()) return;
  std::vector<std::int32_t> three(3), four(4);
  std::vector<std::uint8_t> bytes(3);
  Values leaf(3), longer(4);
  const BinnedSum sum{three, three, bytes};
  for (const BinnedSum& wrong : {BinnedSum{four, three, bytes}, BinnedSum{three, four, bytes},
                                 BinnedSum{four, four, bytes}}) {
    expect_error(ErrorCode::invalid_argument, [&] { binned_deposit(exec, leaf, wrong); });
    expect_error(ErrorCode::invalid_argument, [&] { binned_merge(exec, sum, wrong); });
    expect_error(ErrorCode::invalid_argument, [&] { binned_merge(exec, wrong, sum); });
    expect_error(ErrorCode::invalid_argument, [&] { binned_finish(exec, wrong, leaf); });
  }
  expect_error(ErrorCode::invalid_argument, [&] { binned_deposit(exec, longer, sum); });
  expect_error(ErrorCode::invalid_argument, [&] { binned_finish(exec, sum, longer); });
  const PlacedValues e4m3{nullptr, DType::e4m3, 0, true}, bf16{nullptr, DType::bf16, 0, true};
  expect_error(ErrorCode::invalid_argument, [&] { enqueue_binned_deposit({}, e4m3, {}); });
  expect_error(ErrorCode::invalid_argument, [&] { enqueue_binned_finish({}, {}, bf16); });
}

}  // namespace binned_device_test
