#pragma once
// A model of a few tensors on one TP rank, and its initial state.

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/layout/tp_cut.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "tests/support/values.hpp"

namespace zeroproof::tests {

/// Tensors of the undistributed model, and their split dimensions.
struct CutTensors {
  std::vector<ParamSpec> params;
  std::vector<int> dims = {};  // [params], -1: not split; empty: none is

  bool cut() const { return !dims.empty(); }
};

/// The tensors of one TP rank, and their positions in the undistributed model.
struct RankModel {
  explicit RankModel(const CutTensors& tensors, int tp = 1, int tp_rank = 0)
      : RankModel(tensors.params,
                  make_tp_model(
                      tensors.params,
                      tensors.cut() ? tensors.dims : std::vector<int>(tensors.params.size(), -1),
                      tp, tp_rank)) {}

  std::vector<Piece> pieces() const { return layout.pieces({{0, layout.padded_numel()}}); }

  /// Undistributed index of element e of a piece.
  std::int64_t global(const Piece& piece, std::int64_t e) const {
    return placement[piece.tensor].global(piece.tensor_begin + e);
  }

  /// An undistributed buffer on this rank; padding is NaN. Empty stays empty.
  std::vector<float> part_of(const std::vector<float>& undistributed) const {
    std::vector<float> part(
        undistributed.empty() ? 0 : static_cast<std::size_t>(layout.padded_numel()), nan32);
    for (const Piece& piece : pieces()) {
      for (std::int64_t e = 0; e < piece.numel && !part.empty(); ++e) {
        part[piece.local_begin + e] = undistributed[global(piece, e)];
      }
    }
    return part;
  }

  FlatLayout whole;  ///< undistributed
  FlatLayout layout;
  std::vector<TensorPlacement> placement;

 private:
  RankModel(const std::vector<ParamSpec>& params, const TpModel& mine)
      : whole(params), layout(mine.params), placement(mine.placement) {}
};

/// Memory behind a FullState with the buffers of every rule.
struct InitialState {
  explicit InitialState(const FlatLayout& layout, const LossScalerConfig& config = {},
                        std::int64_t applied_steps = 5)
      : master(shared_random_values(layout.padded_numel(), 71, 4)),
        slots{shared_random_values(layout.padded_numel(), 72, 8),
              shared_random_values(layout.padded_numel(), 73, 8),
              shared_random_values(layout.padded_numel(), 74, 8),
              shared_random_values(layout.padded_numel(), 75, 4)},
        applied_steps(applied_steps),
        scaler{config.log2_initial, 0, config.hysteresis} {
    for (const StateSlot slot : {StateSlot::exp_avg_sq, StateSlot::max_exp_avg_sq})
      for (float& value : slots[slot]) value = std::abs(value);
    for (std::uint64_t tensor = 0; tensor < layout.tensors().size(); ++tensor)
      tensor_steps.push_back(tensor % 4);
  }

  /// The TP rank's part of it.
  InitialState part_of(const RankModel& model) const {
    InitialState part = *this;
    part.master = model.part_of(part.master);
    for (std::vector<float>& values : part.slots) values = model.part_of(values);
    return part;
  }

  FullState view() const {
    FullState state;
    state.master = master;
    for (const StateSlot slot : all_state_slots) state.slots[slot] = slots[slot];
    state.tensor_steps = tensor_steps;
    state.applied_steps = applied_steps;
    state.scaler = scaler;
    return state;
  }

  std::vector<float> master;
  PerSlot<std::vector<float>> slots;
  std::vector<std::uint64_t> tensor_steps;
  std::int64_t applied_steps;
  LossScalerState scaler;
};

}  // namespace zeroproof::tests
