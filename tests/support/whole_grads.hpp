#pragma once
// The micro-batch gradients of a world in the undistributed model.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/numbered_grads.hpp"

namespace zeroproof::tests {

/// The gradients of the undistributed model: the sum of the ranks' parts by R11, over TP ranks first.
class WholeGrads final : public GradSource {
 public:
  WholeGrads(const CutTensors& tensors, const GradKind& kind, const Grid& grid)
      : kind_(kind), grid_(grid), leaf_(FlatLayout(tensors.params).padded_numel(), DType::fp32) {
    for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
      for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank)
        parts_.emplace_back(RankModel(tensors, grid.tp, tp_rank), kind, grid, cp_rank, tp_rank);
    }
    params_.resize(parts_.size());
  }

  /// params: of the undistributed model; must stay valid during the step.
  void begin_step(std::int64_t step, int log2_scale, const TensorView& params) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      NumberedGrads& part = parts_[i];
      part.step = step;
      part.log2_scale = log2_scale;
      if (!kind_.layered) continue;
      params_[i] = GuardedBuffer(part.model().layout.padded_numel(), params.dtype);
      part.params = params_[i].view();
      for (const Piece& piece : part.model().pieces()) {
        for (std::int64_t e = 0; e < piece.numel; ++e) {
          const std::int64_t width = num_bytes(params.dtype);
          const std::int64_t from = part.model().global(piece, e);
          std::memcpy(static_cast<std::byte*>(part.params.data) + (piece.local_begin + e) * width,
                      static_cast<const std::byte*>(params.data) + from * width,
                      static_cast<std::size_t>(width));
        }
      }
    }
  }

  /// Scales of the blocks of 8-bit parameters, before a step.
  void set_scales(Span<const float> scale_inv) {
    for (NumberedGrads& part : parts_) part.set_scales(scale_inv);
  }

  /// fp32 where parts were added; the dtype of the parts cannot represent their sum.
  DType dtype() const { return parts_.size() > 1 ? DType::fp32 : kind_.dtype; }

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    if (parts_.size() == 1) return parts_.front().micro_batch_grad(micro_batch);
    std::vector<TensorView> views;
    for (NumberedGrads& part : parts_) views.push_back(part.micro_batch_grad(micro_batch));
    const auto at = [&](int cp_rank, int tp_rank) {
      return static_cast<std::size_t>(cp_rank) * static_cast<std::size_t>(grid_.tp) +
             static_cast<std::size_t>(tp_rank);
    };
    for (int tp_rank = 0; tp_rank < grid_.tp; ++tp_rank) {
      const RankModel& model = parts_[at(0, tp_rank)].model();
      for (const Piece& piece : model.pieces()) {
        const auto tensor = static_cast<std::size_t>(piece.tensor);
        for (std::int64_t e = 0; e < piece.numel; ++e) {
          const auto part = [&](int cp_rank, int of) {
            const std::int64_t begin =
                parts_[at(cp_rank, of)].model().layout.tensors()[tensor].begin;
            return load_element(views[at(cp_rank, of)], begin + e);
          };
          const auto over_tp = [&](int cp_rank) {
            if (!model.placement[tensor].tp_replicated) return part(cp_rank, tp_rank);
            return folded([&](int of) { return part(cp_rank, of); }, 0, grid_.tp);
          };
          leaf_.as<float>()[model.global(piece, e)] = folded(over_tp, 0, grid_.cp);
        }
      }
    }
    return leaf_.view();
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return parts_.front().num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return std::ranges::any_of(
        parts_, [&](const NumberedGrads& part) { return part.has_grad(micro_batch, tensor); });
  }

  /// The first rule violated by the whole pass itself, or "".
  std::string problem() const {
    for (const NumberedGrads& part : parts_) {
      if (!part.problem.empty()) return "the test itself: " + part.problem;
    }
    return "";
  }

 private:
  /// The tree over values [first, first + count), count a power of two.
  template <class Value>
  static float folded(const Value& value, int first, int count) {
    if (count == 1) return value(first);
    return folded(value, first, count / 2) + folded(value, first + count / 2, count / 2);
  }

  GradKind kind_;
  Grid grid_;
  GuardedBuffer leaf_;
  std::vector<NumberedGrads> parts_;  // [cp * tp]
  std::vector<GuardedBuffer> params_;
};

}  // namespace zeroproof::tests
