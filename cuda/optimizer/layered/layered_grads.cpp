#include "cuda/optimizer/layered/layered_grads.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/optimizer/overlap/unit_grads.hpp"

namespace zeroproof::cuda {

void require_units(const LayeredModel& model, const FlatLayout& layout) {
  const std::vector<FlatRange>& units = model.units();
  const std::vector<int>& visits = model.visits();
  std::vector<bool> visited(units.size(), false);
  for (const int unit : visits) {
    if (unit >= 0 && static_cast<std::size_t>(unit) < units.size()) visited[unit] = true;
  }
  std::int64_t end = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool is_start =
        units[u].begin == layout.padded_numel() ||
        std::ranges::binary_search(layout.tensors(), units[u].begin, {}, &TensorSlot::begin);
    ZP_CHECK(units[u].begin == end && units[u].end >= end && is_start, ErrorCode::invalid_argument,
             "unit " + std::to_string(u) + " of the model starts at element " +
                 std::to_string(units[u].begin),
             "the unit before it ends at " + std::to_string(end) +
                 ", and every tensor must be in exactly one unit",
             "build units from neighbouring tensors, padding included");
    ZP_CHECK(units[u].numel() == 0 || visited[u], ErrorCode::invalid_argument,
             "the model never visits unit " + std::to_string(u),
             "its gradient would never be complete", "visit every unit that has elements");
    end = units[u].end;
  }
  ZP_CHECK(end == layout.padded_numel(), ErrorCode::invalid_argument,
           "the units of the model end at " + std::to_string(end) + " of " +
               std::to_string(layout.padded_numel()) + " elements",
           "every tensor needs a gradient", "cover the whole flat range with units");
  for (const int unit : visits) {
    ZP_CHECK(unit >= 0 && static_cast<std::size_t>(unit) < units.size(),
             ErrorCode::invalid_argument, "the model visits unit " + std::to_string(unit),
             "it has " + std::to_string(units.size()) + " units", "count units from 0");
  }
}

LayeredGrads::LayeredGrads(LayeredModel& model, const GradSource& counts, const FlatLayout& layout,
                           const TensorView& params, DType grad_dtype, MemoryLedger& ledger)
    : model_(model), counts_(counts), params_(params), grad_dtype_(grad_dtype), ledger_(ledger) {
  require_units(model, layout);
  ZP_CHECK(params.numel == layout.padded_numel(), ErrorCode::invalid_argument,
           "whole parameters have " + std::to_string(params.numel) + " elements",
           "the layout has " + std::to_string(layout.padded_numel()),
           "pass param_full, padding included");
}

TensorView LayeredGrads::micro_batch_grad(std::int64_t micro_batch) {
  if (!leaf_) leaf_.emplace(ledger_, MemoryClass::grad, params_.numel, grad_dtype_);
  CountedBuffer& leaf = *leaf_;
  leaf->poison();
  const std::vector<FlatRange>& units = model_.units();
  const auto of_unit = [&](const TensorView& whole, int unit) {
    return stretch(whole, 0, units[unit]);
  };
  model_.begin(micro_batch);
  const std::vector<int>& visits = model_.visits();
  for (const int unit : visits) model_.forward(unit, of_unit(params_, unit));
  for (std::size_t i = visits.size(); i-- > 0;) {
    model_.backward(visits[i], of_unit(params_, visits[i]), of_unit(leaf->view(), visits[i]));
  }
  ZP_CHECK(leaf.intact(), ErrorCode::internal, "the red zone of a gradient was overwritten",
           "the model wrote outside its range", "check the model's backward pass");
  return leaf->view();
}

}  // namespace zeroproof::cuda
