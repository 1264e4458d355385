#include "verification/ops/update_ratio.hpp"

#include <cstdio>
#include <iterator>

#include "verification/bounds/update_bounds.hpp"

namespace zeroproof::verification {
namespace {

float value_at(const OpCall& call, int operand, std::int64_t i) {
  return operand < 0 ? 0.0F : call.in<float>(static_cast<std::size_t>(operand))[static_cast<std::size_t>(i)];
}

ElementState state_at(const OpCall& call, const UpdateOperands& at, std::int64_t i) {
  return {value_at(call, at.master, i), value_at(call, at.exp_avg, i), value_at(call, at.exp_avg_sq, i),
          value_at(call, at.max_exp_avg_sq, i), value_at(call, at.momentum_buffer, i)};
}

}  // namespace

void BoundRatio::add(const BoundRatio& other) {
  judged += other.judged;
  outside += other.outside;
  beyond += other.beyond;
  remainders &= other.remainders;
  if (worst != worst || other.worst <= worst) return;
  worst = other.worst;
  buffer = other.buffer;
  index = other.index;
}

std::string to_string(const BoundRatio& ratio) {
  char worst[32];
  std::snprintf(worst, sizeof(worst), "%.3g", ratio.worst);
  const std::string of = std::to_string(ratio.outside) + " of " +
                         std::to_string(ratio.judged + ratio.outside) +
                         " results are beyond the bound's conditions";
  if (ratio.worst <= 1) {
    return std::string("within the bound of any legal order: at most ") + worst + " of it, in " +
           ratio.buffer + "; another order of the same formula, which --accept any-order takes (" + of + ")";
  }
  std::string place;
  for (std::size_t w = 0; w < std::size(BoundRatio::vector_widths) && place.empty(); ++w) {
    if ((ratio.remainders >> w & 1U) == 0) continue;
    place = ", always in what a loop over " + std::to_string(BoundRatio::vector_widths[w]) +
            " elements leaves over";
  }
  return "in no legal order: " + std::to_string(ratio.beyond) + " results are beyond their bound" + place +
         "; " + ratio.buffer + "[" + std::to_string(ratio.index) + "] is " + worst +
         " times as far from exact arithmetic as one may leave it (" + of + ")";
}

BoundRatio update_ratio(const UpdateSettings& settings, const UpdateOperands& operands,
                        const OpCall& pristine, const OpCall& candidate) {
  const UpdateBounds bounds(settings.hyper, settings.t);
  BoundRatio all;
  for (std::int64_t i = 0; i < pristine.numel(); ++i) {
    const UpdateBound bound = bounds(value_at(pristine, operands.grad, i), state_at(pristine, operands, i));
    const ElementState got = state_at(candidate, operands, i);
    const auto look = [&](const char* buffer, const ElementBound& of, int operand, float value) {
      if (operand < 0) return;
      if (of.judged) {
        const double off = of.ratio(value);
        all.add({off, buffer, i, 1, 0});
        if (off <= 1) return;
        ++all.beyond;
        for (std::size_t w = 0; w < std::size(BoundRatio::vector_widths); ++w) {
          const std::int64_t rest = pristine.numel() % BoundRatio::vector_widths[w];
          if (i < pristine.numel() - rest) all.remainders &= ~(1U << w);
        }
      } else {
        all.add({0, buffer, i, 0, 1});
      }
    };
    look("exp_avg", bound.exp_avg, operands.exp_avg, got.exp_avg);
    look("exp_avg_sq", bound.exp_avg_sq, operands.exp_avg_sq, got.exp_avg_sq);
    if (settings.hyper.amsgrad)
      look("max_exp_avg_sq", bound.max_exp_avg_sq, operands.max_exp_avg_sq, got.max_exp_avg_sq);
    if (settings.hyper.momentum != 0) {
      look("momentum_buffer", bound.momentum_buffer, operands.momentum_buffer, got.momentum_buffer);
    }
    look("master", bound.master, operands.master, got.master);
  }
  return all;
}

}  // namespace zeroproof::verification
