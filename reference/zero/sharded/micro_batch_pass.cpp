#include "reference/zero/sharded/micro_batch_pass.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "reference/buffers.hpp"
#include "reference/zero/sharded/tp_parts.hpp"

namespace zeroproof::reference {
namespace {

void check_units(const FlatLayout& layout, LayeredModel& model) {
  std::int64_t end = 0;
  for (const FlatRange& unit : model.units()) {
    const bool at_tensor = std::ranges::any_of(
        layout.tensors(), [&](const TensorSlot& slot) { return slot.begin == unit.begin; });
    ZP_CHECK(unit.begin == end && unit.end >= unit.begin && (at_tensor || unit.numel() == 0),
             ErrorCode::invalid_argument,
             "a unit of the model is [" + std::to_string(unit.begin) + ", " +
                 std::to_string(unit.end) + ")",
             "units are contiguous and start at tensor boundaries",
             "split the flat layout between tensors");
    end = unit.end;
  }
  ZP_CHECK(end == layout.padded_numel(), ErrorCode::invalid_argument,
           "the units of the model end at " + std::to_string(end) + " of " +
               std::to_string(layout.padded_numel()) + " elements",
           "every tensor needs a gradient", "pass units that cover the flat layout");
}

/// Number of visits of every unit.
std::vector<int> visit_counts(LayeredModel& model) {
  std::vector<int> counts(model.units().size(), 0);
  for (const int unit : model.visits()) {
    ZP_CHECK(unit >= 0 && static_cast<std::size_t>(unit) < counts.size(),
             ErrorCode::invalid_argument, "the model visits unit " + std::to_string(unit),
             "it has " + std::to_string(counts.size()) + " units", "number units from 0");
    counts[unit] += 1;
  }
  for (std::size_t unit = 0; unit < counts.size(); ++unit) {
    ZP_CHECK(counts[unit] > 0, ErrorCode::invalid_argument,
             "the model never visits unit " + std::to_string(unit), "its gradient would be missing",
             "visit every unit");
  }
  return counts;
}

std::vector<FlatRange> units_of(const OptimizerSetup& setup, LayeredModel* model) {
  if (model == nullptr) return {{0, setup.layout->padded_numel()}};
  check_units(*setup.layout, *model);
  visit_counts(*model);
  return model->units();
}

}  // namespace

MicroBatchPass::MicroBatchPass(const OptimizerSetup& setup, GradSource& leaves, ParamSource params)
    : setup_(setup),
      leaves_(leaves),
      model_(leaves.layers()),
      units_(units_of(setup, model_)),
      params_(setup, units_, params) {
  if (model_ != nullptr && has_scales(setup.param_dtype)) model_->set_scales(params.scale_inv);
}

void MicroBatchPass::run(std::optional<std::int64_t> micro_batch, const TakeGradient& take) {
  if (model_ != nullptr) {
    if (micro_batch) model_->begin(*micro_batch);
    forward(*model_, micro_batch);
    backward(*model_, micro_batch, take);
  } else if (micro_batch) {
    run_whole(*micro_batch, take);
  } else {
    take(0, nullptr);
  }
}

void MicroBatchPass::run_whole(std::int64_t micro_batch, const TakeGradient& take) {
  const TensorView leaf = leaves_.micro_batch_grad(micro_batch);
  ZP_CHECK(leaf.dtype == setup_.grad_dtype && leaf.numel == setup_.layout->padded_numel(),
           ErrorCode::invalid_argument,
           "the gradient of micro-batch " + std::to_string(micro_batch) + " has " +
               std::to_string(leaf.numel) + " elements of " + std::string(name(leaf.dtype)),
           "the setup has " + std::to_string(setup_.layout->padded_numel()) + " of " +
               std::string(name(setup_.grad_dtype)),
           "make gradient source and setup agree");
  std::vector<float> grad = finish_leaf(leaf, 0);
  take(0, &grad);
}

void MicroBatchPass::forward(LayeredModel& model, std::optional<std::int64_t> micro_batch) {
  for (const int visited : model.visits()) {
    const auto unit = static_cast<std::size_t>(visited);
    params_.gather(unit);
    if (micro_batch) model.forward(visited, params_.view(unit));
    params_.release(unit);
  }
}

void MicroBatchPass::backward(LayeredModel& model, std::optional<std::int64_t> micro_batch,
                              const TakeGradient& take) {
  std::map<std::size_t, GuardedBuffer> grads;  // of units in progress; initially NaN
  std::vector<int> visits_left = visit_counts(model);
  const std::vector<int> visits = model.visits();
  for (auto visit = visits.rbegin(); visit != visits.rend(); ++visit) {
    const auto unit = static_cast<std::size_t>(*visit);
    params_.gather(unit);
    if (micro_batch) {
      const auto [grad, is_first] =
          grads.try_emplace(unit, units_[unit].numel(), setup_.grad_dtype);
      model.backward(*visit, params_.view(unit), grad->second.view());
    }
    params_.release(unit);

    visits_left[unit] -= 1;
    if (visits_left[unit] > 0) continue;  // a tied unit: another visit adds to its gradient
    if (!micro_batch) {
      take(unit, nullptr);
      continue;
    }
    std::vector<float> grad = finish_leaf(grads.at(unit).view(), unit);
    grads.erase(unit);
    take(unit, &grad);
  }
}

std::vector<float> MicroBatchPass::finish_leaf(const TensorView& grad, std::size_t unit) const {
  std::vector<float> widened = widen_leaf(grad, setup_.layout->pieces({units_[unit]}));
  combine_tp_parts(setup_, units_[unit], widened);
  return widened;
}

}  // namespace zeroproof::reference
