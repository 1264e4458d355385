#include "verification/compare/judge/any_order.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/base/same_value.hpp"
#include "common/step/param_groups.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/compare/bounds/update_bounds.hpp"
#include "verification/compare/wrong_formulas.hpp"

namespace zeroproof::verification {
namespace {

Span<const float> floats(const TensorView& view) {
  return {static_cast<const float*>(view.data), static_cast<std::size_t>(view.numel)};
}

const ElementBound& member(const UpdateBound& bound, BufferId id) {
  switch (id) {
    case BufferId::exp_avg:
      return bound.exp_avg;
    case BufferId::exp_avg_sq:
      return bound.exp_avg_sq;
    case BufferId::max_exp_avg_sq:
      return bound.max_exp_avg_sq;
    case BufferId::momentum_buffer:
      return bound.momentum_buffer;
    default:
      return bound.master;
  }
}

}  // namespace

AnyOrder::AnyOrder(const OptimizerSetup& setup) : setup_(setup) {}

void AnyOrder::take_factors(const NamedBuffers& reference) {
  for (const auto& [id, buffer] : reference) {
    const TensorView& view = buffer.view;
    if (id == BufferId::step_scalars && view.num_bytes() >= std::int64_t{sizeof(StepScalars)}) {
      StepScalars scalars;
      std::memcpy(&scalars, view.data, sizeof(scalars));
      inv_scale_ = scalars.inv_scale;  // of every group
    } else if (id == BufferId::clip_coef) {
      const Span<const float> values = floats(view);
      clip_coefs_.assign(values.begin(), values.end());
    }
  }
}

void AnyOrder::keep(const NamedBuffers& reference) {
  for (const auto& [id, buffer] : reference) {
    if (buffer.view.dtype != DType::fp32 || buffer.ranges.empty()) continue;
    const Span<const float> values = floats(buffer.view);
    kept_[id].assign(values.begin(), values.end());
  }
}

Span<const float> AnyOrder::kept(BufferId id) const {
  const auto found = kept_.find(id);
  return found == kept_.end() ? Span<const float>{} : Span<const float>(found->second);
}

bool AnyOrder::applies(Phase phase, const ExposedBuffer& buffer) const {
  if (buffer.view.dtype != DType::fp32 || buffer.ranges.empty()) return false;
  const auto has = [&](BufferId id) {
    return std::ssize(kept(id)) == buffer.view.numel;  // the same shard
  };
  switch (phase) {
    case Phase::unscale:
      return buffer.id == BufferId::unscaled_grad && has(BufferId::grad_sum);
    case Phase::clip:
      return buffer.id == BufferId::grad && has(BufferId::unscaled_grad) &&
             !setup_.hyper.clip_value;
    case Phase::update:
      return (buffer.id == BufferId::master || is_state(buffer.id)) && has(BufferId::grad) &&
             has(BufferId::master) &&
             std::ranges::all_of(kept_slots(setup_.hyper),
                                 [&](StateSlot slot) { return has(buffer_of(slot)); }) &&
             setup_.missing_grad == MissingGrad::zero &&
             !traits_of(setup_.hyper.rule).trust_ratio && !traits_of(setup_.hyper.rule).matrices;
    default:
      return false;
  }
}

AnyOrder::Bound AnyOrder::bound_of(Phase phase, BufferId id, std::int64_t tensor) const {
  if (phase == Phase::unscale) {
    return [from = kept(BufferId::grad_sum), factor = inv_scale_](std::int64_t i) {
      return product_bound(from[i], factor);
    };
  }
  if (phase == Phase::clip) {
    const float coef = clip_coefs_.at(static_cast<std::size_t>(setup_.clip_groups.of(tensor)));
    return [from = kept(BufferId::unscaled_grad), coef](std::int64_t i) {
      return product_bound(from[i], coef);
    };
  }
  const OptimizerHyper hyper =
      hyper_of(setup_.groups, setup_.hyper, setup_.groups.of(tensor), t_, setup_.micro_batches);
  return [this, id, bounds = UpdateBounds(hyper, t_)](std::int64_t i) {
    const auto before = [&](BufferId state) {
      const Span<const float> values = kept(state);
      return values.empty() ? 0.0F : values[i];
    };
    return member(
        bounds(before(BufferId::grad),
               {before(BufferId::master), before(BufferId::exp_avg), before(BufferId::exp_avg_sq),
                before(BufferId::max_exp_avg_sq), before(BufferId::momentum_buffer)}),
        id);
  };
}

Comparison AnyOrder::compare(Phase phase, const ExposedBuffer& reference,
                             const ExposedBuffer& candidate,
                             const std::vector<Piece>& pieces) const {
  Comparison result;
  const Span<const float> want = floats(reference.view), got = floats(candidate.view);
  for (const Piece& piece : pieces) {
    const Bound bound = bound_of(phase, candidate.id, piece.tensor);
    for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
      ++result.compared;
      const std::uint64_t wanted = element_bits(reference.view, i);
      const std::uint64_t gotten = element_bits(candidate.view, i);
      if (wanted == gotten) continue;
      result.same_bits = false;
      if (same_value(want[i], got[i])) continue;
      const ElementBound legal = bound(i);
      if (legal.judged && legal.ratio(got[i]) <= 1) continue;
      if (!result.first) result.first = {i, wanted, gotten};
      ++result.differing;
      result.last_index = i;
    }
  }
  return result;
}

std::string AnyOrder::wrong_formula(const NamedBuffers& candidate,
                                    const std::vector<Piece>& pieces) const {
  const auto part = [](Span<const float> values, const Piece& piece) {
    return values.empty() ? values : values.subspan(piece.local_begin, piece.numel);
  };
  const auto after = [&](BufferId id) {
    const auto found = candidate.find(id);
    return found == candidate.end() ? Span<const float>{} : floats(found->second.view);
  };
  std::map<int, std::vector<UpdateResults>> by_group;  // each has its own rates
  for (const Piece& piece : pieces) {
    const auto state = [&](const auto& of) {
      return UpdateState{part(of(BufferId::master), piece), part(of(BufferId::exp_avg), piece),
                         part(of(BufferId::exp_avg_sq), piece),
                         part(of(BufferId::max_exp_avg_sq), piece),
                         part(of(BufferId::momentum_buffer), piece)};
    };
    by_group[setup_.groups.of(piece.tensor)].push_back(
        {part(kept(BufferId::grad), piece), state([&](BufferId id) { return kept(id); }),
         state(after)});
  }
  std::optional<std::vector<std::string>> common;
  for (const auto& [group, results] : by_group) {
    const OptimizerHyper hyper =
        hyper_of(setup_.groups, setup_.hyper, group, t_, setup_.micro_batches);
    const auto found = wrong_formulas({hyper, hyper.beta1, hyper.beta2, t_}, results);
    if (!found) continue;  // right, or too few elements
    if (!common) common = found;
    std::erase_if(*common, [&](const std::string& formula) {
      return std::ranges::find(*found, formula) == found->end();
    });
  }
  return common ? as_if(*common) : "";
}

}  // namespace zeroproof::verification
