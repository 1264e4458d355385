#include "verification/tools/judge_run/run_findings.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_element.hpp"

namespace zeroproof::verification {
namespace {

/// The phase of the report with the same place in a step.
std::optional<Phase> report_phase(RunPhase phase) {
  switch (phase) {
    case RunPhase::reduce:
      return Phase::reduce;
    case RunPhase::overflow:
      return Phase::unscale;
    case RunPhase::norm:
      return Phase::norm;
    case RunPhase::clip:
      return Phase::clip;
    case RunPhase::update:
      return Phase::update;
    case RunPhase::cast:
      return Phase::cast;
    case RunPhase::rate:
      return Phase::prepare;
    case RunPhase::state:
      break;
  }
  return std::nullopt;
}

std::int64_t element_at(const RunBlocks& blocks, std::int64_t i) {
  for (const RunBlock& block : blocks) {
    if (i < block.length) return block.start + i;
    i -= block.length;
  }
  return -1;
}

std::string times_the_bound(double ratio, double worst) {
  if (!std::isfinite(ratio)) return "";
  std::string text = fmt::format("the error is {:.3g} times the bound of any legal order", ratio);
  if (std::isfinite(worst) && worst > 1.01 * ratio)
    text += fmt::format("; elsewhere in this tensor up to {:.3g} times", worst);
  return text;
}

}  // namespace

std::string coordinates_of(const RunParameter& parameter, std::int64_t element) {
  if (parameter.shape.empty()) return "";
  std::vector<std::string> parts(parameter.shape.size());
  for (std::size_t d = parts.size(); d-- > 0;) {
    parts[d] = std::to_string(element % parameter.shape[d]);
    element /= parameter.shape[d];
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return "[" + text + "]";
}

std::string_view name(RunPhase phase) {
  constexpr std::array<std::string_view, num_run_phases + 1> names = {
      "reduce", "overflow", "norm", "clip", "update", "cast", "state", "rate"};
  return names[static_cast<std::size_t>(phase)];
}

bool RunFindings::first_in(const RunPlace& place) const {
  return first_ && now_ && first_->rank == static_cast<int>(place.rank) &&
         first_->buffer == place.buffer &&
         first_->parameter == step_->parameter(place.parameter).name;
}

bool RunFindings::add(const RunPlace& place, std::int64_t i, double ratio, float got,
                      long double want) {
  if (!now_ || now_->rank != place.rank || now_->parameter != place.parameter ||
      now_->buffer != place.buffer) {
    now_ = place;
    now_compared_ = 0;
  }
  ++compared_;
  ++now_compared_;
  const bool mine = first_in(place);
  if (mine) ++first_->compared;
  const bool right = ratio <= 1;  // false for NaN
  worst_ = std::max(worst_, std::isnan(ratio) ? HUGE_VAL : ratio);
  if (right) return false;
  ++differing_;
  const RunParameter& parameter = step_->parameter(place.parameter, place.rank);
  const std::int64_t element = element_at(place.all_elements ? parameter.leaf : parameter.owned, i);
  if (!first_) {
    Divergence d;
    d.step = step_->number();
    d.phase = report_phase(phase_);
    d.rank = static_cast<int>(place.rank);
    d.buffer = place.buffer;
    d.what = place.what;
    d.shard_index = i;
    d.global_index = element;
    d.parameter = parameter.name;
    d.coordinates = coordinates_of(parameter, element);
    d.candidate_value = shown_value(place.dtype, got);
    d.reference_value = shown_value(place.dtype, static_cast<float>(want));
    d.compared = now_compared_;
    first_ = std::move(d);
    first_ratio_ = first_worst_ = ratio;
  } else if (!mine) {
    return true;
  }
  first_->last_global_index = element;
  ++first_->differing;
  first_worst_ = std::max(first_worst_, ratio);
  return true;
}

void RunFindings::add_scalar(std::size_t rank, const std::string& buffer, const std::string& what,
                             double ratio, const std::string& got, const std::string& want) {
  now_.reset();
  ++compared_;
  worst_ = std::max(worst_, std::isnan(ratio) ? HUGE_VAL : ratio);
  if (ratio <= 1) return;
  ++differing_;
  if (first_) return;
  Divergence d;
  d.step = step_->number();
  d.phase = report_phase(phase_);
  d.rank = static_cast<int>(rank);
  d.buffer = buffer;
  d.what = what;
  d.candidate_value = got;
  d.reference_value = want;
  d.differing = d.compared = 1;
  first_ = std::move(d);
  first_ratio_ = first_worst_ = ratio;
}

void RunFindings::add_right(std::int64_t count, double worst) {
  compared_ += count;
  worst_ = std::max(worst_, worst);
}

void RunFindings::hint(const std::string& text) {
  if (first_ && first_->hint.empty()) first_->hint = text;
}

void RunFindings::note(const std::string& text) {
  if (note_.find(text) == std::string::npos) note_ += (note_.empty() ? "" : "; ") + text;
}

void RunFindings::missing(const std::string& text) {
  if (missing_.find(text) == std::string::npos)
    missing_ += (missing_.empty() ? "not recorded: " : ", ") + text;
}

Result RunFindings::result(const std::string& program, const std::string& replay) const {
  const bool by_bound = phase_ == RunPhase::reduce || phase_ == RunPhase::norm ||
                        phase_ == RunPhase::clip || phase_ == RunPhase::update;
  Result r;
  r.id = fmt::format("judge-run/{}/step{:06}", name(phase_), step_->number());
  r.suite = "judge-run";
  r.group = std::string(name(phase_));
  r.side = program;
  r.exactness = partial_ ? "partial" : named_ ? "named" : by_bound ? "bounded" : "bitwise";
  r.held_to = named_ ? "settings" : by_bound ? "any-order" : "contract";
  r.replay = replay;
  r.compared = compared_;
  r.differing = differing_;
  r.worst_ratio = worst_;
  r.reason = note_;
  if (!missing_.empty()) r.reason += (note_.empty() ? "" : "; ") + missing_;
  if (first_) {
    r.status = Status::fail;
    r.divergence = first_;
    r.divergence->order = times_the_bound(first_ratio_, first_worst_);
    r.reason = describe(*first_);
  } else {
    r.status = compared_ > 0 ? Status::pass : Status::skipped;
    if (compared_ == 0 && r.reason.empty()) r.reason = "nothing to compare";
  }
  return r;
}

}  // namespace zeroproof::verification
