#pragma once
// A synthetic model, and the environment of a layer-by-layer pass in a step: gatherer and sink over
// thread ranks.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/optimizer/overlap/unit_exchange.hpp"

namespace zeroproof::tests::inline runtime_fixtures {

inline float load(const TensorView& view, std::int64_t i) {
  if (view.dtype == DType::fp32) return static_cast<const float*>(view.data)[i];
  return std::bit_cast<float>(
      static_cast<std::uint32_t>(static_cast<const bf16*>(view.data)[i].bits) << 16);
}

/// To bf16 by truncation: any fixed rule is enough.
inline void store(const TensorView& view, std::int64_t i, float value) {
  if (view.dtype == DType::fp32) {
    static_cast<float*>(view.data)[i] = value;
  } else {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    static_cast<bf16*>(view.data)[i] = {static_cast<std::uint16_t>(bits >> 16)};
  }
}

/// Element i of the parameters after `version` casts.
inline float param_value(std::int64_t i, std::int64_t version) {
  return 0.5F + static_cast<float>((i * 37 + version * 11) % 61) / 64;
}

/// Odd sizes, an empty tensor and one of a single element; padded_numel is 17408.
inline FlatLayout odd_layout() {
  return FlatLayout({{"a", {1500}},
                     {"b", {10}},
                     {"empty", {0, 3}},
                     {"c", {3000}},
                     {"d", {700}},
                     {"one", {}},
                     {"e", {2048}},
                     {"f", {5000}},
                     {"g", {40, 50}}});
}

/// Units that begin at these tensors, the first at 0.
inline std::vector<FlatRange> units_from(const FlatLayout& layout,
                                         const std::vector<std::size_t>& tensors) {
  std::vector<FlatRange> units;
  for (std::size_t u = 0; u < tensors.size(); ++u) {
    units.push_back(
        {layout.tensors()[tensors[u]].begin,
         u + 1 < tensors.size() ? layout.tensors()[tensors[u + 1]].begin : layout.padded_numel()});
  }
  return units;
}

/// Every gradient depends on all parameters that were passed so far, so a stale or NaN one is
/// detected.
class SyntheticModel : public LayeredModel {
 public:
  SyntheticModel(const FlatLayout& layout, std::vector<FlatRange> units, std::vector<int> visits,
                 int part = 0)
      : layout_(layout), units_(std::move(units)), visits_(std::move(visits)), part_(part) {}

  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }

  void begin(std::int64_t micro_batch) override {
    activation_ = 1 + static_cast<float>(micro_batch) + static_cast<float>(part_) / 16;
    visited_.assign(units_.size(), 0);
  }
  void forward(int unit, const TensorView& param) override { look(unit, param); }
  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    look(unit, param);
    const bool is_first = visited_[unit]++ == 0;
    for_each_element(unit, [&](std::int64_t i) {
      const float mine = activation_ * load(param, i) - static_cast<float>(i % 7);
      store(grad, i, is_first ? mine : load(grad, i) + mine);
    });
  }

 private:
  template <class Work>
  void for_each_element(int unit, Work&& work) const {
    const FlatRange range = units_[unit];
    for (const Piece& piece : layout_.pieces({range})) {
      for (std::int64_t i = 0; i < piece.numel; ++i) work(piece.local_begin + i);
    }
  }
  void look(int unit, const TensorView& param) {
    float sum = 0;
    for_each_element(unit, [&](std::int64_t i) { sum += load(param, i); });
    activation_ = activation_ / 2 + sum / 4096;
  }

  const FlatLayout& layout_;
  std::vector<FlatRange> units_;
  std::vector<int> visits_;
  int part_;
  float activation_ = 0;
  std::vector<int> visited_;
};

/// Whole parameters of a version; padding is NaN.
inline GuardedBuffer whole_params(const FlatLayout& layout, DType dtype, std::int64_t version) {
  GuardedBuffer params(layout.padded_numel(), dtype);
  for (const TensorSlot& tensor : layout.tensors()) {
    for (std::int64_t i = tensor.begin; i < tensor.begin + tensor.numel; ++i) {
      store(params.view(), i, param_value(i, version));
    }
  }
  return params;
}

/// Expected result of every pass: the model over whole parameters into one whole gradient.
inline GuardedBuffer expected_leaf(const FlatLayout& layout, LayeredModel& model,
                                   const TensorView& params, DType grad_dtype,
                                   std::int64_t micro_batch) {
  GuardedBuffer leaf(layout.padded_numel(), grad_dtype);
  const auto part = [&](const TensorView& whole, int unit) {
    const FlatRange range = model.units()[unit];
    return TensorView{static_cast<std::byte*>(whole.data) + range.begin * num_bytes(whole.dtype),
                      whole.dtype, range.numel()};
  };
  model.begin(micro_batch);
  const std::vector<int> visits = model.visits();
  for (const int unit : visits) model.forward(unit, part(params, unit));
  for (auto unit = visits.rbegin(); unit != visits.rend(); ++unit) {
    model.backward(*unit, part(params, *unit), part(leaf.view(), *unit));
  }
  return leaf;
}

/// Every rank owns an even part of every unit.
class FakeGatherer : public cuda::UnitGatherer {
 public:
  FakeGatherer(Communicator& comm, const FlatLayout& layout) : comm_(comm), layout_(layout) {}

  void gather(const FlatRange& unit, const TensorView& full) override {
    ++num_gathers;
    const std::int64_t width = num_bytes(full.dtype);
    const std::int64_t world = comm_.world_size();
    std::vector<Span<std::byte>> receive;
    for (std::int64_t r = 0; r < world; ++r) {
      const std::int64_t begin = unit.numel() * r / world, end = unit.numel() * (r + 1) / world;
      receive.emplace_back(static_cast<std::byte*>(full.data) + begin * width,
                           static_cast<std::size_t>((end - begin) * width));
    }
    const std::int64_t begin = unit.numel() * comm_.rank() / world;
    const std::int64_t end = unit.numel() * (comm_.rank() + 1) / world;
    for (std::int64_t i = begin; i < end; ++i) {
      if (layout_.tensor_at(unit.begin + i) >= 0)
        store(full, i, param_value(unit.begin + i, casts));
    }
    comm_.all_gather(receive[comm_.rank()], receive);
  }
  std::int64_t version() const override { return casts; }

  std::int64_t casts = 0;
  int num_gathers = 0;

 private:
  Communicator& comm_;
  const FlatLayout& layout_;
};

/// Records the data of every rank. [micro-step][rank] -> whole gradient, empty without a
/// micro-batch.
class FakeSink : public cuda::BucketSink {
 public:
  FakeSink(Communicator& comm, const ShardMap& shards, DType dtype)
      : comm_(comm), shards_(shards), dtype_(dtype) {}

  void reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) override {
    order.emplace_back(micro_step, bucket);
    const FlatRange range = shards_.buckets().at(bucket);
    const auto width = static_cast<std::size_t>(num_bytes(dtype_));
    const auto bytes = static_cast<std::size_t>(leaf.num_bytes());
    std::vector<std::byte> there(comm_.world_size());
    std::vector<Span<std::byte>> flags;
    for (std::byte& flag : there) flags.emplace_back(&flag, 1);
    const std::byte mine{leaf.data != nullptr};
    comm_.all_gather({&mine, 1}, flags);
    auto& step = leaves[micro_step];
    step.resize(there.size());
    std::vector<Span<std::byte>> receive(there.size());
    for (std::size_t r = 0; r < there.size(); ++r) {
      if (there[r] == std::byte{0}) continue;
      step[r].resize(static_cast<std::size_t>(shards_.padded_numel()) * width);
      receive[r] = {step[r].data() + static_cast<std::size_t>(range.begin) * width, bytes};
    }
    comm_.all_gather({static_cast<const std::byte*>(leaf.data), leaf.data != nullptr ? bytes : 0},
                     receive);
  }

  std::map<std::int64_t, std::vector<std::vector<std::byte>>> leaves;
  std::vector<std::pair<std::int64_t, std::size_t>>
      order;  ///< (micro-step, bucket) in order of arrival

 private:
  Communicator& comm_;
  const ShardMap& shards_;
  const DType dtype_;
};

/// Elements of tensors that differ in bits; padding may hold anything.
inline std::int64_t differing(const FlatLayout& layout, const std::vector<std::byte>& actual,
                              const GuardedBuffer& expected) {
  const auto width = static_cast<std::size_t>(num_bytes(expected.dtype()));
  if (actual.size() != static_cast<std::size_t>(expected.numel()) * width)
    return layout.numel() + 1;
  const auto* bytes = static_cast<const std::byte*>(expected.data());
  std::int64_t count = 0;
  for (const TensorSlot& tensor : layout.tensors()) {
    for (std::int64_t i = tensor.begin; i < tensor.begin + tensor.numel; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * width;
      count += std::memcmp(actual.data() + at, bytes + at, width) == 0 ? 0 : 1;
    }
  }
  return count;
}

}  // namespace zeroproof::tests::inline runtime_fixtures
