#include "verification/model/byte_gpt_layered.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "verification/model/byte_gpt_cuts.hpp"
#include "verification/model/byte_gpt_pass.hpp"

namespace zeroproof::workload {
namespace {

void check_view(const char* what, const TensorView& view, const FlatRange& unit) {
  ZP_CHECK(view.numel == unit.numel(), ErrorCode::invalid_argument,
           std::string(what) + " of a unit have " + std::to_string(view.numel) +
               " elements instead of " + std::to_string(unit.numel()),
           "tensors would be read from wrong offsets", "pass the unit with its padding");
  ZP_CHECK(is_param_format(view.dtype), ErrorCode::invalid_argument,
           std::string(what) + " of a unit are " + std::string(name(view.dtype)),
           "the model widens 16-bit formats only", "pass fp32, bf16 or fp16");
}

TensorView part_of(const TensorView& view, std::int64_t begin, std::int64_t numel) {
  return {static_cast<std::byte*>(view.data) + begin * num_bytes(view.dtype), view.dtype, numel};
}

/// A unit in fp32: the view itself, or a copy for the duration of a call.
class WideUnit {
 public:
  WideUnit(const FlatLayout& layout, const FlatRange& unit, const TensorView& view)
      : view_(view), pieces_(layout.pieces({unit})) {
    if (view.dtype != DType::fp32) copy_.resize(view.numel);
  }

  void load_all() {
    if (copy_.empty()) return;
    for (const Piece& piece : pieces_) {
      for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
        copy_[i] = load_element(view_, i);
      }
    }
  }

  void store_all() const {
    if (copy_.empty()) return;
    for (const Piece& piece : pieces_) {
      for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
        store_element(view_, i, copy_[i]);
      }
    }
  }

  Span<float> elements() {
    if (!copy_.empty()) return copy_;
    return {static_cast<float*>(view_.data), static_cast<std::size_t>(view_.numel)};
  }

 private:
  TensorView view_;
  std::vector<Piece> pieces_;
  std::vector<float> copy_;
};

}  // namespace

ByteGptLayered::ByteGptLayered(const ByteGptShape& shape, ByteGptData data, AfterGrad after_grad,
                               InstructionSet set)
    : ByteGptLayered(shape, ByteGptGroups{}, std::move(data), std::move(after_grad), set) {}

ByteGptLayered::ByteGptLayered(const ByteGptShape& shape, const ByteGptGroups& groups,
                               ByteGptData data, AfterGrad after_grad, InstructionSet set)
    : shape_(shape),
      place_(shape, groups),
      data_(std::move(data)),
      after_grad_(std::move(after_grad)),
      set_(set),
      layout_(byte_gpt_tp_model(shape, place_.tp_size, place_.tp_rank).params),
      units_(byte_gpt_units(shape, layout_)),
      visits_(byte_gpt_visits(shape)) {}

ByteGptLayered::~ByteGptLayered() = default;

void ByteGptLayered::begin(std::int64_t micro_batch) {
  const ByteGptMicroBatch batch = data_(micro_batch);
  pass_.reset();
  micro_batch_ = micro_batch;
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  loss_scale_ = batch.loss_scale;
  pass_ = std::make_unique<BytePass<float>>(shape_, place_, tokens_, set_);
  steps_done_ = 0;
}

std::size_t ByteGptLayered::next_visit(int unit, bool is_forward) const {
  const std::size_t count = visits_.size();
  const std::size_t visit = steps_done_ < count ? steps_done_ : 2 * count - 1 - steps_done_;
  ZP_CHECK(pass_ != nullptr && is_forward == (steps_done_ < count) && visits_[visit] == unit,
           ErrorCode::invalid_argument,
           "unit " + std::to_string(unit) + " was run " + (is_forward ? "forward" : "backward") +
               " as call " + std::to_string(steps_done_) + " of a micro-batch",
           "it needs the results of the units before it",
           "call begin(), forward() in the order of visits() and backward() in reverse");
  return visit;
}

void ByteGptLayered::forward(int unit, const TensorView& param) {
  const std::size_t visit = next_visit(unit, true);
  const FlatRange& range = units_[unit];
  check_view("parameters", param, range);
  WideUnit wide(layout_, range, param);
  wide.load_all();
  pass_->forward(visit, Tensors<const float>(layout_, wide.elements(), range.begin));
  ++steps_done_;
  if (steps_done_ == visits_.size()) loss_ = pass_->loss();
}

void ByteGptLayered::backward(int unit, const TensorView& param, const TensorView& grad) {
  const std::size_t visit = next_visit(unit, false);
  const FlatRange& range = units_[unit];
  check_view("parameters", param, range);
  check_view("gradients", grad, range);
  WideUnit wide(layout_, range, param);
  wide.load_all();
  WideUnit wide_grad(layout_, range, grad);
  const auto after = visits_.begin() + static_cast<std::ptrdiff_t>(visit);
  const bool visited_before = std::find(after + 1, visits_.end(), unit) != visits_.end();
  if (visited_before) wide_grad.load_all();
  pass_->backward(visit, Tensors<const float>(layout_, wide.elements(), range.begin), loss_scale_,
                  Tensors<float>(layout_, wide_grad.elements(), range.begin));
  wide_grad.store_all();
  ++steps_done_;
  if (std::find(visits_.begin(), after, unit) == after) tell_complete(unit, grad);
  if (visit == 0) pass_.reset();
}

void ByteGptLayered::tell_complete(int unit, const TensorView& grad) const {
  if (!after_grad_) return;
  const FlatRange& range = units_[unit];
  for (const Piece& piece : layout_.pieces({range})) {
    after_grad_(micro_batch_, static_cast<int>(piece.tensor),
                part_of(grad, piece.local_begin, piece.numel));
  }
}

void run_layered(LayeredModel& model, std::int64_t micro_batch, const TensorView& params,
                 const TensorView& leaf) {
  const auto unit_of = [&](const TensorView& flat, int unit) {
    const FlatRange& range = model.units()[unit];
    return part_of(flat, range.begin, range.numel());
  };
  const std::vector<int>& visits = model.visits();
  model.begin(micro_batch);
  for (const int unit : visits) model.forward(unit, unit_of(params, unit));
  for (auto unit = visits.rbegin(); unit != visits.rend(); ++unit) {
    model.backward(*unit, unit_of(params, *unit), unit_of(leaf, *unit));
  }
}

}  // namespace zeroproof::workload
