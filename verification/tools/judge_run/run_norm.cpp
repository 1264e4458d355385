#include "verification/tools/judge_run/run_norm.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/same_value.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_element.hpp"

namespace zeroproof::verification {
namespace {

using bounds::Real;

Real power_of(Real x, Real p) {
  const Real magnitude = std::fabs(x);
  return p == 2 ? magnitude * magnitude : p == 1 ? magnitude : std::pow(magnitude, p);
}

/// [Bound:norm] without its factor N; negative above its number of elements.
Real norm_error(Real n, Real p) {
  if (n < 1) return 0;
  if (!(p >= 0.5L && (n + 35) / p * bounds::u <= 0.019L)) return -1;
  return 1.01L * ((n + 7 + std::log(n)) / p + 10) * bounds::u;
}

}  // namespace

RunNorm::RunNorm(const RunStep& step, const std::string& kind, double loss_scale)
    : step_(&step), p_(step.ranks.front().norm_type), loss_scale_(loss_scale) {
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    if (!step.has_gradient(p)) continue;
    if (!step.all_have(kind, p)) {
      missing_ = kind;
      return;
    }
    for (std::size_t r = 0; r < step.ranks.size(); ++r) {
      const RunParameter& parameter = step.parameter(p, r);
      if (parameter.sampled()) {
        // A rank may own elements of which none is recorded, or none at all.
        if (p_ == 2 && !parameter.sum_squares && parameter.owned.empty()) continue;
        if (p_ != 2 || !parameter.sum_squares) {
          missing_ = p_ == 2 ? "sum_squares of sampled parameters"
                             : "all elements, which a norm other than the 2-norm needs";
          return;
        }
        if (const auto values = step.ranks[r].read(kind, parameter)) add_format(values->dtype);
        parts_.push_back({p, r, *parameter.sum_squares, parameter.numel});
        parts_.back().powers.add_unknown(*parameter.sum_squares, parameter.numel);
        continue;
      }
      if (parameter.owned.empty()) continue;
      const RunValues values = *step.ranks[r].read(kind, parameter);
      Part part{p, r, 0, static_cast<std::int64_t>(values.values.size())};
      for (const float x : values.values) {
        const Real power = power_of(x, std::isinf(p_) ? 1 : p_);
        part.power_sum = std::isinf(p_) && !std::isnan(power) ? std::max(part.power_sum, power)
                                                              : part.power_sum + power;
        if (!std::isinf(p_) && std::isfinite(power)) part.powers.add(power);
      }
      add_format(values.dtype);
      parts_.push_back(part);
    }
  }
  if (parts_.empty()) missing_ = kind;
}

Real RunNorm::norm_of(Real power_sum) const {
  const Real scale = loss_scale_;
  if (std::isinf(p_)) return power_sum / scale;
  return (p_ == 2 ? std::sqrt(power_sum) : std::pow(power_sum, 1 / p_)) / scale;
}

Real RunNorm::total() const {
  Real sum = 0;
  for (const Part& part : parts_) {
    if (step_->parameter(part.parameter).replicated && part.rank != 0) continue;
    sum = std::isinf(p_) && !std::isnan(part.power_sum) ? std::max(sum, part.power_sum)
                                                        : sum + part.power_sum;
  }
  return sum;
}

Real RunNorm::exact() const { return norm_of(total()); }

ElementBound RunNorm::bound() const {
  const Real norm = exact();
  if (!std::isfinite(norm)) return {norm, 0, true};
  std::int64_t all = 0;
  for (const Part& part : parts_) {
    if (step_->parameter(part.parameter).replicated && part.rank != 0) continue;
    all += part.numel;
  }
  const Real scaling = loss_scale_ == 1 ? 0 : roundings(3, bounds::u);
  if (std::isinf(p_)) return {norm, (scaling * norm + bounds::eta) * bounds::slack, true};
  Real error = norm_error(static_cast<Real>(all), p_);
  if (error < 0) {
    const Real one = error_of_parts();
    const Real joined = norm_error(static_cast<Real>(parts_.size()), p_);
    error = one < 0 || joined < 0 ? -1 : (1 + one) * (1 + joined) - 1;
  }
  if (error < 0 || !(norm < bounds::largest)) return {norm, 0, false};
  // A program may take the norm in a format that it then rounds to fp32 once more.
  return {norm, ((error + scaling + bounds::u) * norm + bounds::eta) * bounds::slack, true};
}

Real RunNorm::error_of_parts() const {
  const Real all = total();
  Real most = 0, powers = 0;
  for (const Part& part : parts_) {
    if (step_->parameter(part.parameter).replicated && part.rank != 0) continue;
    Real error = norm_error(static_cast<Real>(part.numel), p_);
    if (error < 0) error = part.powers.norm_error(p_);
    if (error < 0) return -1;
    most = std::max(most, error);
    powers += std::pow(error, p_) * part.power_sum / all;
  }
  // By the triangle inequality, which norms of p below 1 do not have.
  return p_ >= 1 ? std::min(most, std::pow(powers, 1 / p_)) : most;
}

bool RunNorm::is_wide() const {
  return !std::isinf(p_) && std::ranges::any_of(parts_, [&](const Part& part) {
    return norm_error(static_cast<Real>(part.numel), p_) < 0;
  });
}

std::vector<RunNorm::Wrong> RunNorm::wrong_norms(std::size_t rank) const {
  std::vector<Wrong> wrong;
  const RunStep& step = *step_;
  const Real all = total(), norm = exact();
  const bool largest = std::isinf(p_);
  const auto world = static_cast<Real>(step.world());
  std::vector<Real> own(step.ranks.size(), 0);
  for (const Part& part : parts_)
    own[part.rank] =
        largest ? std::max(own[part.rank], part.power_sum) : own[part.rank] + part.power_sum;
  if (step.world() > 1) {
    wrong.push_back(
        {fmt::format("rank {} clipped by the norm of its own shard", rank), norm_of(own[rank])});
    for (std::size_t r = 0; r < own.size(); ++r) {
      if (r != rank)
        wrong.push_back({fmt::format("rank {} had the norm of the shard of rank {}", rank, r),
                         norm_of(own[r])});
    }
  }
  if (loss_scale_ != 1)
    wrong.push_back(
        {fmt::format("the norm were that of the scaled gradients (loss scale {:g})", loss_scale_),
         norm * static_cast<Real>(loss_scale_)});
  if (largest) return wrong;
  Real replicated = 0;
  for (const Part& part : parts_) {
    const RunParameter& parameter = step.parameter(part.parameter);
    if (parameter.replicated && part.rank == 0) replicated += part.power_sum;
  }
  if (step.world() > 1 && replicated > 0)
    wrong.push_back({fmt::format("a replicated parameter were counted {} times", step.world()),
                     norm_of(all + (world - 1) * replicated)});
  for (const Part& part : parts_) {
    const RunParameter& parameter = step.parameter(part.parameter);
    if (part.power_sum == 0 || (parameter.replicated && part.rank != 0)) continue;
    const bool whole = step.owners(part.parameter).size() == 1 || parameter.replicated;
    const std::string what =
        whole ? parameter.name
              : fmt::format("the shard of {} on rank {}", parameter.name, part.rank);
    if (step.world() > 1 && parameter.replicated)
      wrong.push_back({fmt::format("{} were counted {} times", what, step.world()),
                       norm_of(all + (world - 1) * part.power_sum)});
    if (!parameter.replicated || step.world() != 2)
      wrong.push_back({what + " were counted twice", norm_of(all + part.power_sum)});
    wrong.push_back({what + " were left out", norm_of(all - part.power_sum)});
  }
  if (step.world() > 1) {
    Real sum = 0, most = 0;
    for (const Real power_sum : own) {
      sum += norm_of(power_sum);
      most = std::max(most, norm_of(power_sum));
    }
    wrong.push_back({"the norms of the ranks were added", sum});
    wrong.push_back({"the norm were the largest of the ranks", most});
    const std::string ranks = fmt::format("the number of ranks ({})", step.world());
    wrong.push_back({"the norm were multiplied by " + ranks, norm * world});
    wrong.push_back({"the norm were divided by " + ranks, norm / world});
    wrong.push_back({"the norm were multiplied by the root of " + ranks, norm * std::sqrt(world)});
    wrong.push_back({"the norm were divided by the root of " + ranks, norm / std::sqrt(world)});
  }
  if (p_ == 2) wrong.push_back({"no root were taken", norm * norm});
  return wrong;
}

std::string wrong_norm_text(const RunNorm& norm, std::size_t rank, double got, double least) {
  constexpr long double near = 1e-5L;
  for (const RunNorm::Wrong& wrong : norm.wrong_norms(rank)) {
    if (!(std::fabs(wrong.value - norm.exact()) > static_cast<Real>(least) * norm.exact()))
      continue;
    if (std::fabs(static_cast<long double>(got) - wrong.value) <= near * wrong.value)
      return "as if " + wrong.text;
  }
  return "";
}

}  // namespace zeroproof::verification
