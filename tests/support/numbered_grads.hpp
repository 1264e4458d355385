#pragma once
// Gradients without a network that are the same for every parallel configuration: a function of the
// step, the number of the micro-batch and the undistributed index of the element.

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/guarded_buffer.hpp"
#include "tests/support/grid.hpp"
#include "tests/support/rank_model.hpp"

namespace zeroproof::tests {

/// Part `part` of micro-batch gradient `leaf`, by undistributed index; the sum of several depends on the order of the additions.
inline const std::vector<float>& leaf_values(std::int64_t numel, std::int64_t step,
                                             std::int64_t leaf, int part = 0) {
  const std::int64_t seed = (step * 1000 + leaf) * 10 + part;
  return shared_random_values(numel, static_cast<std::uint64_t>(seed), 6);
}

/// A parameter as the model reads it: for 8-bit formats the code, without the scale of its block.
inline float shown_element(const TensorView& param, std::int64_t i) {
  const auto* codes = static_cast<const std::uint8_t*>(param.data);
  if (param.dtype == DType::e4m3) return to_float(e4m3{codes[i]});
  if (param.dtype == DType::e5m2) return to_float(e5m2{codes[i]});
  return load_element(param, i);
}

/// Settings that are equal on all ranks of a world.
struct GradKind {
  DType dtype = DType::fp32;
  std::int64_t micro_batches = 1;
  std::int64_t overflow_step =
      0;  ///< one element of one gradient of this step is infinite, on one rank
  bool gaps =
      false;  ///< two of three tensors have gradients from one rank only, and in some steps none
  bool exact = false;            ///< multiples of 2^-10, which add up without rounding
  bool layered = false;          ///< run layer by layer; gradients then depend on the parameters
  bool expect_released = false;  ///< parameters of a unit are freed when another unit is visited
};

/// Units of a model that is run layer by layer. The first one is tied: visited first and last.
inline std::vector<FlatRange> tied_units(const FlatLayout& layout) {
  std::vector<FlatRange> units;
  for (const std::size_t tensor : {0U, 2U, 3U}) {
    if (tensor >= layout.tensors().size()) continue;
    const std::int64_t begin = layout.tensors()[tensor].begin;
    if (!units.empty()) units.back().end = begin;
    units.push_back({begin, layout.padded_numel()});
  }
  return units;
}

/// Source of one rank; padding is NaN. As layers it detects violations of the rules of a pass.
class NumberedGrads final : public GradSource, public LayeredModel {
 public:
  NumberedGrads(const RankModel& model, const GradKind& kind, const Grid& grid = {},
                int cp_rank = 0, int tp_rank = 0)
      : kind(kind),
        cut(tied_units(model.layout)),
        model_(model),
        grid_(grid),
        cp_rank_(cp_rank),
        tp_rank_(tp_rank),
        leaf_(model.layout.padded_numel(), kind.dtype) {
    for (int unit = 0; unit < static_cast<int>(cut.size()); ++unit) order.push_back(unit);
    order.push_back(0);
    const bool any_cut = !std::ranges::all_of(model.placement, &TensorPlacement::tp_replicated);
    for (std::size_t k = 0; k < model.placement.size(); ++k) {
      const TensorSlot& slot = model.whole.tensors()[k];
      if (slot.numel == 0 || model.placement[k].tp_replicated == any_cut) continue;
      overflow_tensor_ = static_cast<std::int64_t>(k);
      overflow_at_ = slot.begin + slot.numel - 1;
    }
  }

  GradKind kind;
  std::int64_t step = 1;
  int log2_scale = 0;
  TensorView params;                ///< whole parameters, for whole gradients of layers
  std::vector<std::int64_t> asked;  ///< micro-batches of the calls, in order
  std::string problem;              ///< first violated rule of a pass
  std::vector<FlatRange> cut;
  std::vector<int> order;

  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    constexpr std::int64_t tokens[] = {1, 7, 0, 6};
    return tokens[(micro_batch + step) % 4];
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    if (!kind.gaps || tensor % 3 == 0) return true;
    if (overflows(micro_batch) && tensor == overflow_tensor_) return true;
    const std::int64_t turn = step + tensor;
    return turn % 3 != 0 && micro_batch == turn % kind.micro_batches && is_last_part();
  }

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    leaf_.poison();
    if (kind.layered) {
      whole_pass(micro_batch);
    } else {
      asked.push_back(micro_batch);
      for (const Piece& piece : model_.pieces()) {
        const std::vector<float>& random = values_of(piece, micro_batch);
        for (std::int64_t e = 0; e < piece.numel; ++e) {
          store_element(leaf_.view(), piece.local_begin + e, value(random, piece, e, micro_batch));
        }
      }
    }
    return leaf_.view();
  }

  LayeredModel* layers() override { return kind.layered ? this : nullptr; }
  const std::vector<FlatRange>& units() const override { return cut; }
  const std::vector<int>& visits() const override { return order; }

  void set_scales(Span<const float> scale_inv) override {
    expect(place_ == 0, "scales are set in the middle of a pass");
    scales_ = 0;
    for (const float scale : scale_inv) scales_ = scales_ * 31 + bits(scale);
  }

  void begin(std::int64_t micro_batch) override {
    expect(place_ == 0, "a pass begins before the last one has ended");
    asked.push_back(micro_batch);
    activation_ = 1 + scales_;
    last_ = {};  // memory of an earlier pass may be freed
    visited_.assign(cut.size(), false);
  }

  void forward(int unit, const TensorView& param) override {
    expect(place_ < order.size() && order[place_] == unit, "forward visits are out of order");
    look_at(unit, param);
    for (const Piece& piece : pieces(unit)) {
      for (std::int64_t e = 0; e < piece.numel; ++e) {
        activation_ = activation_ * 31 + bits(shown_element(param, piece.local_begin + e));
      }
    }
    place_ += 1;
  }

  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    expect(place_ > order.size() - 1 && order[2 * order.size() - 1 - place_] == unit,
           "backward visits are out of order");
    expect(grad.dtype == kind.dtype && grad.numel == param.numel,
           "a gradient has another length or dtype");
    look_at(unit, param);
    const bool is_first = !visited_[unit];
    // TP ranks read different parts of the parameters, but their gradients must not depend on that.
    const float echo = grid_.tp > 1 ? 0.0F : static_cast<float>((activation_ + place_) % 1021);
    for (const Piece& piece : pieces(unit)) {
      const std::vector<float>& random = values_of(piece, asked.back());
      for (std::int64_t e = 0; e < piece.numel; ++e) {
        const std::int64_t at = piece.local_begin + e;
        const float before = load_element(grad, at);
        expect(!is_first || std::isnan(before), "a gradient is not NaN at first");
        const float mine = value(random, piece, e, asked.back(), shown_element(param, at), echo);
        store_element(grad, at, is_first ? mine : before + mine);
      }
    }
    visited_[unit] = true;
    place_ = (place_ + 1) % (2 * order.size());
  }

  const RankModel& model() const { return model_; }

 private:
  void expect(bool ok, const char* text) {
    if (!ok && problem.empty()) problem = text;
  }
  bool overflows(std::int64_t micro_batch) const {
    return step == kind.overflow_step && micro_batch == kind.micro_batches - 1 && is_last_part();
  }
  bool is_last_part() const { return cp_rank_ == grid_.cp - 1 && tp_rank_ == grid_.tp - 1; }
  std::vector<Piece> pieces(int unit) const { return model_.layout.pieces({cut[unit]}); }

  const std::vector<float>& values_of(const Piece& piece, std::int64_t micro_batch) const {
    const bool replicated = model_.placement[piece.tensor].tp_replicated;
    return leaf_values(model_.whole.padded_numel(), step, micro_batch * grid_.cp + cp_rank_,
                       replicated ? tp_rank_ : 0);
  }

  float value(const std::vector<float>& random, const Piece& piece, std::int64_t e,
              std::int64_t micro_batch, float param = 1, float echo = 0) const {
    if (!has_grad(micro_batch, piece.tensor)) return 0.0F;
    const std::int64_t global = model_.global(piece, e);
    if (overflows(micro_batch) && global == overflow_at_) return inf32;
    const float drawn = random[global];
    if (kind.exact) return static_cast<float>(static_cast<int>(drawn * 64)) / 1024;
    if (global % 11 == 3 && !kind.layered) return -0.0F;
    return std::ldexp(drawn * param + echo, log2_scale);
  }

  /// The parameters of a visit; those of the previous visit must be freed by now.
  void look_at(int unit, const TensorView& param) {
    expect(param.numel == cut[unit].numel(), "parameters have another length");
    const bool other_unit = last_.data != nullptr && last_.data != param.data;
    if (kind.expect_released && other_unit && last_.numel > 0) {
      expect(std::isnan(shown_element(last_, 0)),
             "a unit's parameters are not freed after its layer");
    }
    last_ = param;
  }

  void whole_pass(std::int64_t micro_batch) {
    if (params.data == nullptr)
      fail(ErrorCode::internal, "a whole gradient was requested", "this source has layers",
           "use them");
    const auto part = [&](const TensorView& full, int unit) {
      const FlatRange& range = cut[unit];
      std::byte* const data =
          static_cast<std::byte*>(full.data) + range.begin * num_bytes(full.dtype);
      return TensorView{data, full.dtype, range.numel()};
    };
    begin(micro_batch);
    for (const int unit : order) forward(unit, part(params, unit));
    for (auto unit = order.rbegin(); unit != order.rend(); ++unit)
      backward(*unit, part(params, *unit), part(leaf_.view(), *unit));
  }

  RankModel model_;
  Grid grid_;
  int cp_rank_, tp_rank_;
  std::int64_t overflow_tensor_ = -1;
  std::int64_t overflow_at_ = -1;  // undistributed: the end of the last split tensor, if any
  GuardedBuffer leaf_;
  std::size_t place_ = 0;  // calls since begin
  std::uint64_t activation_ = 1;
  std::uint64_t scales_ = 0;  // of the blocks of 8-bit parameters, in one number
  std::vector<bool> visited_;
  TensorView last_;
};

}  // namespace zeroproof::tests
