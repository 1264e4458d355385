#pragma once
// A model that is run layer by layer and needs no network: its gradients depend on every parameter it is shown, and it
// notices when the optimizer breaks the rules of a pass.

#include <string>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/layered_model.hpp"
#include "tests/reference/distributed_support.hpp"

namespace zeroproof::tests {

/// Units of odd_layout: tensors a and nothing; b; one and c. The first one is tied: visited first and last.
class SyntheticModel final : public LayeredModel {
 public:
  SyntheticModel(const FlatLayout& layout, DType param_dtype, DType leaf_dtype)
      : layout_(layout), param_dtype_(param_dtype), leaf_dtype_(leaf_dtype) {}

  std::int64_t step = 0;
  int log2_scale = 0;
  bool overflow = false;  ///< one element of one unit of the last micro-batch is infinite
  std::int64_t micro_batches = 1;
  bool expect_released = false;  ///< parameters of a unit are gone once another unit is visited
  std::int64_t num_passes = 0;
  std::string problem;  ///< first broken rule

  std::vector<FlatRange> cut = {{0, 1024}, {1024, 4096}, {4096, 7168}};
  std::vector<int> order = {0, 1, 2, 0};

  const std::vector<FlatRange>& units() const override { return cut; }
  const std::vector<int>& visits() const override { return order; }

  void begin(std::int64_t micro_batch) override {
    expect(place_ == 0, "a pass begins before the last one has ended");
    micro_batch_ = micro_batch;
    activation_ = 1;
    last_ = {};  // memory of an earlier pass may be gone
    num_passes += 1;
    visited_.assign(cut.size(), false);
  }

  void forward(int unit, const TensorView& param) override {
    expect(place_ < order.size() && order[place_] == unit, "forward visits are out of order");
    const std::vector<float> values = shown(unit, param);
    for (const Piece& piece : pieces(unit)) {
      for (const float value : reference::at(Span<const float>(values), piece)) {
        activation_ = activation_ * 31 + bits(value);
      }
    }
    place_ += 1;
  }

  void backward(int unit, const TensorView& param, const TensorView& grad) override {
    expect(place_ > order.size() - 1 && order[2 * order.size() - 1 - place_] == unit,
           "backward visits are out of order");
    expect(grad.dtype == leaf_dtype_ && grad.numel == param.numel, "a gradient has another length or dtype");
    const std::vector<float> values = shown(unit, param);
    const std::vector<float> before = reference::widen_leaf(grad, pieces(unit));
    std::vector<float> after(values.size(), nan32);
    for (const Piece& piece : pieces(unit)) {
      for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        const float value = gradient(unit, i, values[at]);
        const bool is_first = !visited_[static_cast<std::size_t>(unit)];
        expect(!is_first || std::isnan(before[at]), "a gradient is not born as NaN");
        after[at] = is_first ? value : before[at] + value;
      }
    }
    visited_[static_cast<std::size_t>(unit)] = true;
    reference::ParamBuffer rounded(leaf_dtype_, grad.numel);
    rounded.round_from(after, pieces(unit));
    std::memcpy(grad.data, rounded.view().data, static_cast<std::size_t>(grad.num_bytes()));
    place_ = (place_ + 1) % (2 * order.size());
  }

 private:
  void expect(bool ok, const std::string& text) {
    if (!ok && problem.empty()) problem = text;
  }

  std::vector<Piece> pieces(int unit) const { return layout_.pieces({cut[static_cast<std::size_t>(unit)]}); }

  /// The parameters of a visit in fp32; what was shown in the visit before must be gone by now.
  std::vector<float> shown(int unit, const TensorView& param) {
    const FlatRange& range = cut[static_cast<std::size_t>(unit)];
    expect(param.dtype == param_dtype_ && param.numel == range.numel(),
           "parameters have another length or dtype");
    const bool other_unit = last_.data != nullptr && last_.data != param.data;
    if (expect_released && other_unit && last_.numel > 0) {
      expect(element_bits(last_, 0) == (param_dtype_ == DType::fp32 ? 0x7FFFFFFFU : 0x7FFFU),
             "a unit's parameters are still there after its layer");
    }
    last_ = param;
    return reference::widen_leaf(param, pieces(unit));
  }

  float gradient(int unit, std::int64_t i, float param) const {
    const std::int64_t global = cut[static_cast<std::size_t>(unit)].begin + i;
    if (overflow && micro_batch_ == micro_batches - 1 && global == 7168 - 1024) return inf32;
    const auto seed = static_cast<std::uint64_t>(1000 * step + micro_batch_);
    const float random =
        shared_random_values(layout_.padded_numel(), seed, 6)[static_cast<std::size_t>(global)];
    const auto echo = static_cast<float>((activation_ + place_) % 1021);
    return std::ldexp(random * param + echo, log2_scale);
  }

  const FlatLayout& layout_;
  DType param_dtype_, leaf_dtype_;
  std::int64_t micro_batch_ = 0;
  std::size_t place_ = 0;  // calls since begin
  std::uint64_t activation_ = 1;
  std::vector<bool> visited_;
  TensorView last_;
};

/// The model as a source that is never asked for whole leaves.
struct LayeredSource final : LeafSource {
  explicit LayeredSource(SyntheticModel& model) : model(model) {}
  TensorView leaf(std::int64_t) override {
    fail(ErrorCode::internal, "a whole leaf was asked for", "this source has layers", "use them");
  }
  LayeredModel* layers() override { return &model; }
  SyntheticModel& model;
};

/// A part of a full buffer.
inline TensorView view_of(const TensorView& full, const FlatRange& range) {
  std::byte* const begin = static_cast<std::byte*>(full.data) + range.begin * num_bytes(full.dtype);
  return {begin, full.dtype, range.numel()};
}

/// The whole leaf of a micro-batch, from whole parameters: one pass as layered_model.hpp describes it.
inline GuardedBuffer whole_leaf(SyntheticModel& model, const TensorView& params, DType leaf_dtype,
                                std::int64_t micro_batch) {
  GuardedBuffer leaf(params.numel, leaf_dtype);
  const std::vector<int>& visits = model.visits();
  model.begin(micro_batch);
  for (const int unit : visits)
    model.forward(unit, view_of(params, model.units()[static_cast<std::size_t>(unit)]));
  for (auto visit = visits.rbegin(); visit != visits.rend(); ++visit) {
    const FlatRange& range = model.units()[static_cast<std::size_t>(*visit)];
    model.backward(*visit, view_of(params, range), view_of(leaf.view(), range));
  }
  return leaf;
}

}  // namespace zeroproof::tests
