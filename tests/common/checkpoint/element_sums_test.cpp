// Sums of elements: the same on any number of ranks, different after any change.

#include "common/checkpoint/element_sums.hpp"

#include <doctest.h>

#include <bit>
#include <mutex>

#include "tests/common/checkpoint/held_state.hpp"

namespace element_sums_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

using Sums = std::map<BufferId, std::vector<std::uint64_t>>;

/// Any bits, including NaNs and infinities, the same for the same position.
std::uint32_t any_bits(BufferId id, std::int64_t place) {
  std::uint32_t x =
      static_cast<std::uint32_t>(place) * 2654435761u + static_cast<std::uint32_t>(id) * 40503u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  if (x % 37 == 0) return 0x7fc00000u | (x & 0x803fffffu);  // a NaN, with any sign and payload
  if (x % 41 == 0) return (x & 0x80000000u) | 0x7f800000u;
  if (x % 43 == 0) return x & 0x80000000u;
  return x;
}

Sums sums_of(const Held& held, DType param_dtype, int threads = 1) {
  Sums result;
  run_grid(held.grid, [&](const GridPlace& place) {
    HeldState state(held, place, any_bits);
    state.param_dtype = param_dtype;
    state.fill(BufferId::param_shard, any_bits);
    ElementSums sums(held_layout(), own_pieces(state.setup(), held_layout()), threads);
    for (const BufferId id : {BufferId::master, BufferId::exp_avg_sq, BufferId::param_shard})
      sums.add(state.buffer(id));
    Sums mine = sums.take(*place.all);
    if (place.number == 0) result = std::move(mine);
  });
  return result;
}

/// From the definition: the numbers of all elements, from position and bits.
std::vector<std::uint64_t> defined(BufferId id, DType dtype, std::int64_t bucket,
                                   std::int64_t num_buckets) {
  std::vector<std::uint64_t> sums(num_buckets, 0);
  for (std::int64_t place = 0; place < held_layout().padded_numel(); ++place) {
    if (held_layout().tensor_at(place) < 0) continue;
    std::uint32_t bits = any_bits(id, place);
    if (dtype == DType::fp32) {
      if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fffffffu;
    } else {
      bits &= 0xffffu;
      if ((bits & 0x7fffu) > (dtype == DType::bf16 ? 0x7f80u : 0x7c00u)) bits = 0x7fffu;
    }
    sums[place / bucket] += element_number(static_cast<std::uint64_t>(place), bits);
  }
  return sums;
}

}  // namespace

TEST_CASE("element sums: equal to the definition on any ranks, independent of padding") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const Held& held : many_places()) {
      if (dtype != DType::bf16 && held.grid.size() != 6) continue;
      CAPTURE(to_string(held));
      const Sums sums = sums_of(held, dtype);
      if (held.grid.size() <= 3) {
        for (const int threads : {2, 5}) CHECK(sums_of(held, dtype, threads) == sums);
      }
      const ElementSums shape(held_layout(), {});
      for (const BufferId id : {BufferId::master, BufferId::exp_avg_sq})
        CHECK(sums.at(id) == defined(id, DType::fp32, shape.bucket_numel(), shape.num_buckets()));
      CHECK(sums.at(BufferId::param_shard) ==
            defined(BufferId::param_shard, dtype, shape.bucket_numel(), shape.num_buckets()));
    }
  }
}

TEST_CASE("element sums: every bit of every buffer is in its own bucket's sum, and in no other") {
  // Long enough for several buckets.
  const FlatLayout layout({{"a", {40000}}, {"b", {3, 7}}, {"c", {20001}}});
  std::vector<OwnPiece> own;
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    own.push_back({{"", static_cast<std::int64_t>(i), 0, 0, slot.numel, slot.numel, slot.numel, 0},
                   slot.begin});
  }
  const std::vector<FlatRange> all = {{0, layout.padded_numel()}};
  std::vector<float> values(layout.padded_numel(), 0.5F);
  std::vector<std::uint16_t> halves(values.size(), 0x3f00);
  ElementSums sums(layout, own, 3);  // shares that end inside of a tensor, and of a bucket
  REQUIRE(sums.num_buckets() >= 3);
  ThreadWorld one(1);
  const auto world = one.communicator(0);
  const auto take = [&] {
    sums.add({BufferId::master, {values.data(), DType::fp32, layout.padded_numel()}, all});
    sums.add({BufferId::param_shard, {halves.data(), DType::bf16, layout.padded_numel()}, all});
    return sums.take(*world);
  };
  const Sums before = take();
  const auto check = [&](BufferId changed, std::int64_t place) {
    const Sums after = take();
    int others = 0;
    for (const auto& [id, now] : after) {
      for (std::size_t bucket = 0; bucket < now.size(); ++bucket) {
        const bool here =
            id == changed && static_cast<std::int64_t>(bucket) == place / sums.bucket_numel();
        if (here) CHECK(now[bucket] != before.at(id)[bucket]);
        if (!here && now[bucket] != before.at(id)[bucket]) ++others;
      }
    }
    CHECK(others == 0);
  };
  for (const TensorSlot& slot : layout.tensors()) {
    for (const std::int64_t element : {std::int64_t{0}, slot.numel / 2, slot.numel - 1}) {
      const std::int64_t place = slot.begin + element;
      auto* const word = reinterpret_cast<std::uint32_t*>(values.data()) + place;
      for (int bit = 0; bit < 32; ++bit) {
        *word ^= std::uint32_t{1} << bit;
        check(BufferId::master, place);
        *word ^= std::uint32_t{1} << bit;
      }
      for (int bit = 0; bit < 16; ++bit) {
        halves[place] ^= static_cast<std::uint16_t>(1u << bit);
        check(BufferId::param_shard, place);
        halves[place] ^= static_cast<std::uint16_t>(1u << bit);
      }
    }
  }
  // Two exchanged elements in one bucket.
  values[5] = 0.25F;
  const Sums there = take();
  std::swap(values[5], values[6]);
  CHECK(take().at(BufferId::master) != there.at(BufferId::master));
  std::swap(values[5], values[6]);
  values[5] = 0.5F;
  // Zeros of both signs differ, and elements without owner are in no sum.
  values[7] = 0.0F;
  const Sums plus = take();
  values[7] = -0.0F;
  CHECK(take().at(BufferId::master) != plus.at(BufferId::master));
  values[7] = 0.5F;
  for (std::int64_t place = 0; place < layout.padded_numel(); ++place) {
    if (layout.tensor_at(place) < 0) values[place] = 17;
  }
  CHECK(take() == before);
}

TEST_CASE("element sums: values are pinned, since logs contain them") {
  CHECK(element_number(0, 0) == 0x5bd1e995u);
  CHECK(element_number(0, 0x5bd1e995u) == 0);
  CHECK(element_number(0, 1) == 0x5bd1e994u);
  // (1 * 0x9e3779b1 ^ >> 16) * 0x85ebca6b mod 2^32, ^ >> 13, | 1: by hand.
  std::uint64_t factor = 0x9e3779b1u ^ (0x9e3779b1u >> 16);
  factor = factor * 0x85ebca6bu % 0x100000000u;
  factor = (factor ^ (factor >> 13)) | 1;
  CHECK(element_number(1, 0) == 0x5bd1e995u * factor);
  CHECK(element_number(std::uint64_t{1} << 32, 1) != element_number(0, 1));
  CHECK(element_number((std::uint64_t{7} << 32) + 5, 1) != element_number(5, 1));
}

TEST_CASE("element sums: at most 64 buckets, of a size that no layout changes") {
  const auto shape = [](std::int64_t numel) {
    const FlatLayout layout(std::vector<ParamSpec>{{"a", {numel}}});
    const ElementSums sums(layout, {});
    return std::pair{sums.num_buckets(), sums.bucket_numel()};
  };
  using Shape = std::pair<std::int64_t, std::int64_t>;
  CHECK(shape(0) == Shape{1, 1024});
  CHECK(shape(5) == Shape{1, 1024});
  CHECK(shape(1024 * 64) == Shape{64, 1024});
  CHECK(shape(1024 * 64 + 1) == Shape{33, 2048});
}

}  // namespace element_sums_test
