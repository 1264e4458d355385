#include "verification/tools/trace/traced_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::uint32_t master_stream = 1;
constexpr std::uint32_t first_leaf_stream = 16;  // of micro-batch 0 of the first step
constexpr int num_units = 3;
constexpr const char* unit_names[num_units] = {"embed", "block", "head"};

float rounded(float value, DType dtype) {
  return dtype == DType::fp16 ? to_float(to_fp16(value)) : value;
}

}  // namespace

TracedModel::TracedModel(const TraceSettings& settings)
    : seed_(settings.seed),
      micro_batches_(settings.micro_batches),
      overflow_step_(settings.overflow_step),
      grad_dtype_(settings.grad_dtype()),
      layout_({{"embed.weight", {2, 2}},
               {"block.weight", {2, 3}},
               {"block.bias", {2}},
               {"head.weight", {1, 3}},
               {"head.bias", {1}}}),
      units_(num_units, FlatRange{layout_.padded_numel(), layout_.padded_numel()}) {
  for (const TensorSlot& slot : layout_.tensors()) {
    FlatRange& unit = units_[unit_of(slot)];
    unit.begin = std::min(unit.begin, slot.begin);
  }
  for (std::size_t u = 0; u + 1 < units_.size(); ++u) units_[u].end = units_[u + 1].begin;
  const auto numel = static_cast<std::size_t>(layout_.padded_numel());
  master_ = zeros_ = std::vector<float>(numel, std::numeric_limits<float>::quiet_NaN());
  for (const Piece& piece : layout_.pieces({{0, layout_.padded_numel()}})) {
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      const auto index = static_cast<std::size_t>(i);
      master_[index] = Philox(seed_, master_stream).bell(index) * 0.5F;
      zeros_[index] = 0;
    }
  }
  scaler_.log2_scale = settings.log2_loss_scale;
}

std::string TracedModel::unit_name(std::size_t unit) { return unit_names[unit]; }

std::size_t TracedModel::unit_of(const TensorSlot& tensor) const {
  for (std::size_t u = 0; u < num_units; ++u) {
    if (tensor.name.starts_with(std::string(unit_names[u]) + ".")) return u;
  }
  fail(ErrorCode::internal, "tensor " + tensor.name + " is in no unit",
       "units make up the whole model", "report this as a defect");
}

std::vector<float> TracedModel::leaf(int step, std::int64_t micro_batch,
                                     int log2_loss_scale) const {
  std::vector<float> values(layout_.padded_numel(), std::numeric_limits<float>::quiet_NaN());
  const auto stream =
      first_leaf_stream + static_cast<std::uint32_t>((step - 1) * most_traced_micro_batches);
  const Philox draws(seed_, stream + static_cast<std::uint32_t>(micro_batch));
  const auto scale = static_cast<float>(std::ldexp(1.0, log2_loss_scale));
  for (const TensorSlot& slot : layout_.tensors()) {
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      values[i] = rounded(draws.bell(static_cast<std::uint64_t>(i)) * scale, grad_dtype_);
    }
  }
  if (step == overflow_step_ && micro_batch + 1 == micro_batches_) {
    const TensorSlot& last = layout_.tensors().back();
    values[last.begin + last.numel - 1] = std::numeric_limits<float>::infinity();
  }
  return values;
}

FullState TracedModel::initial_state() const {
  FullState state;
  state.master = master_;
  for (Span<const float>& slot : state.slots) slot = zeros_;
  state.scaler = scaler_;
  return state;
}

const char* name(TracedVisit::Event event) {
  constexpr const char* names[] = {"gather", "forward", "backward", "release"};
  return names[static_cast<std::size_t>(event)];
}

TracedGrads::TracedGrads(const TracedModel& model, const TraceSettings& settings, int step,
                         int log2_loss_scale, std::function<void(std::int64_t)> on_leaf,
                         OnVisit on_visit)
    : model_(model),
      stage_(settings.stage),
      step_(step),
      log2_loss_scale_(log2_loss_scale),
      grad_dtype_(settings.grad_dtype()),
      on_leaf_(std::move(on_leaf)),
      on_visit_(std::move(on_visit)) {
  for (int u = 0; u < num_units; ++u) order_.push_back(u);
}

TensorView TracedGrads::micro_batch_grad(std::int64_t micro_batch) {
  on_leaf_(micro_batch);
  const std::vector<float> values = model_.leaf(step_, micro_batch, log2_loss_scale_);
  leaf_.resize(values.size() * static_cast<std::size_t>(num_bytes(grad_dtype_)));
  const TensorView view{leaf_.data(), grad_dtype_, static_cast<std::int64_t>(values.size())};
  for (std::int64_t i = 0; i < view.numel; ++i) store_element(view, i, values[i]);
  return view;
}

void TracedGrads::forward(int unit, const TensorView&) {
  on_visit_({TracedVisit::Event::forward, micro_batch_, unit});
}

void TracedGrads::backward(int unit, const TensorView&, const TensorView& grad) {
  on_visit_({TracedVisit::Event::backward, micro_batch_, unit});
  const std::vector<float> values = model_.leaf(step_, micro_batch_, log2_loss_scale_);
  const FlatRange& range = model_.units()[unit];
  for (const Piece& piece : model_.layout().pieces({range})) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      store_element(grad, piece.local_begin + i, values[piece.global_begin + i]);
    }
  }
}

}  // namespace zeroproof::verification
