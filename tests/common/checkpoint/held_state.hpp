#pragma once
// The state of a rank that trains nothing: every element encodes its buffer and position, on any
// grid, in any stage and layout.

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/layout/peer_layouts.hpp"
#include "common/layout/tp_cut.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "tests/support/grid.hpp"

namespace zeroproof::tests {

/// Odd sizes, an empty tensor, a scalar; split in rows, in columns, or not.
inline const std::vector<ParamSpec>& held_params() {
  static const std::vector<ParamSpec> params = {
      {"embedding", {37, 9}}, {"nothing", {0, 5}},   {"gain", {61}},     {"up", {16, 200}},
      {"temperature", {}},    {"down", {19, 7, 11}}, {"head", {40, 33}}, {"bias", {1100}}};
  return params;
}
inline const std::vector<int>& held_cuts() {
  static const std::vector<int> cuts = {0, -1, -1, 1, -1, 0, 0, -1};
  return cuts;
}
inline const FlatLayout& held_layout() {
  static const FlatLayout layout(held_params());
  return layout;
}

/// Distribution of a state.
struct Held {
  Grid grid;
  LayoutKind layout = LayoutKind::contract;
  int stage = 1;
  std::int64_t bucket_numel = 2048;
};

inline std::string to_string(const Held& held) {
  return to_string(held.grid) + ", " +
         std::string(names_of(held.layout)[static_cast<std::size_t>(held.layout)]) + ", stage " +
         std::to_string(held.stage) + ", bucket " + std::to_string(held.bucket_numel);
}

/// All stages, layouts and kinds of grid, ranks that own nothing among them.
inline std::vector<Held> many_places() {
  std::vector<Held> places;
  for (const LayoutKind layout :
       {LayoutKind::contract, LayoutKind::megatron, LayoutKind::deepspeed_flat,
        LayoutKind::deepspeed_param, LayoutKind::fsdp2, LayoutKind::greedy}) {
    for (const int ranks : {1, 2, 3, 5, 16})
      places.push_back({{1, ranks, 1, 1}, layout, 1 + ranks % 3});
    places.push_back({{2, 3, 1, 1}, layout, 2, 4096});
    places.push_back({{1, 2, 2, 1}, layout, 1});
    places.push_back({{1, 1, 8, 1}, layout, 3});
    places.push_back({{3, 2, 2, 2}, layout, 1, 1024});
  }
  for (const int ranks : {1, 4}) places.push_back({{1, ranks, 1, 1}, LayoutKind::contract, 0});
  places.push_back({{2, 2, 4, 1}, LayoutKind::contract, 0});
  return places;
}

/// Bits of the element at a position of the undistributed numbering.
using HeldBits = std::function<std::uint32_t(BufferId, std::int64_t place)>;

inline float held_value(BufferId id, std::int64_t place, int salt = 0) {
  return static_cast<float>(place) + static_cast<float>(id) * 131072.0F +
         static_cast<float>(salt) * 0.125F;
}
inline HeldBits held_values(int salt = 0) {
  return [salt](BufferId id, std::int64_t place) {
    const float value = held_value(id, place, salt);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  };
}

class HeldState : public DistributedOptimizer {
 public:
  HeldState(const Held& held, const GridPlace& place, const HeldBits& bits,
            OptimizerHyper hyper = {})
      : model_(make_tp_model(held_params(), held_cuts(), held.grid.tp, place.tp_rank)),
        layout_(model_.params),
        shards_(make_shard_map(held.layout, layout_, held.grid.ranks, held.bucket_numel)) {
    setup_.layout = &layout_;
    setup_.shards = &shards_;
    if (held.grid.tp > 1) setup_.placement = model_.placement;
    setup_.stage = held.stage;
    setup_.cp = held.grid.cp;
    setup_.hyper = hyper;
    place.into(setup_);
    ranges_ = held.stage == 0 ? std::vector<FlatRange>{{0, layout_.padded_numel()}}
                              : shards_.shard(place.rank);
    for (const BufferId id :
         {BufferId::master, BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::param_shard})
      fill(id, bits);
  }

  /// New values for every element, as after a step.
  void fill(BufferId id, const HeldBits& bits) {
    const DType dtype = id == BufferId::param_shard ? param_dtype : DType::fp32;
    std::int64_t numel = 0;
    for (const FlatRange& range : ranges_) numel += range.numel();
    std::vector<std::uint32_t>& words = memory_[id];
    words.assign(static_cast<std::size_t>(numel), ~std::uint32_t{0});  // padding is NaN
    for (const Piece& piece : layout_.pieces(ranges_)) {
      for (std::int64_t i = 0; i < piece.numel; ++i)
        set(id, dtype, piece.local_begin + i, bits(id, undistributed(piece, i)));
    }
  }

  ExposedBuffer buffer(BufferId id) {
    const DType dtype = id == BufferId::param_shard ? param_dtype : DType::fp32;
    std::vector<std::uint32_t>& words = memory_.at(id);
    return {id, {words.data(), dtype, static_cast<std::int64_t>(words.size())}, ranges_};
  }

  std::int64_t undistributed(const Piece& piece, std::int64_t i) const {
    const auto tensor = static_cast<std::size_t>(piece.tensor);
    const std::int64_t element = piece.tensor_begin + i;
    if (setup_.placement.empty()) return held_layout().tensors()[tensor].begin + element;
    return setup_.placement[tensor].global(element);
  }

  OptimizerSetup& setup() { return setup_; }
  const std::vector<FlatRange>& ranges() const { return ranges_; }

  void load_state(const FullState&) override {}
  void run_phase(Phase, GradSource&) override {}
  bool skipped() const override { return false; }
  std::vector<ExposedBuffer> exposed(Phase) override { return {}; }
  std::vector<ExposedBuffer> storage() override {
    std::vector<ExposedBuffer> all;
    for (const auto& [id, words] : memory_) all.push_back(buffer(id));
    const auto counts = static_cast<std::int64_t>(tensor_steps.size());
    if (counts > 0)
      all.push_back({BufferId::tensor_steps, {tensor_steps.data(), DType::u64, counts}, {}});
    return all;
  }
  LossScalerState loss_scaler() const override { return scaler; }
  std::int64_t applied_steps() const override { return applied; }

  DType param_dtype = DType::bf16;
  LossScalerState scaler = {11, 7, 2};
  std::int64_t applied = 41;
  std::vector<std::uint64_t> tensor_steps;

 private:
  void set(BufferId id, DType dtype, std::int64_t at, std::uint32_t bits) {
    auto* const bytes = reinterpret_cast<unsigned char*>(memory_.at(id).data());
    const auto width = static_cast<std::size_t>(num_bytes(dtype));
    std::memcpy(bytes + static_cast<std::size_t>(at) * width, &bits, width);
  }

  TpModel model_;
  FlatLayout layout_;
  ShardMap shards_;
  OptimizerSetup setup_;
  std::vector<FlatRange> ranges_;
  std::map<BufferId, std::vector<std::uint32_t>> memory_;
};

}  // namespace zeroproof::tests
