#include "verification/tools/judge_run/pair_findings.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {
namespace {

std::optional<Phase> report_phase(PairPhase phase) {
  switch (phase) {
    case PairPhase::settings:
    case PairPhase::state:
    case PairPhase::backward:
      break;  // before the phases of a step
    case PairPhase::reduce:
      return Phase::reduce;
    case PairPhase::overflow:
      return Phase::unscale;
    case PairPhase::norm:
      return Phase::norm;
    case PairPhase::clip:
      return Phase::clip;
    case PairPhase::update:
      return Phase::update;
    case PairPhase::cast:
      return Phase::cast;
  }
  return std::nullopt;
}

bool same_bits(double a, double b) {
  return a == b && std::signbit(a) == std::signbit(b);  // false for NaN
}

/// Numbers by which programs multiply or divide too often.
std::string factor_text(double factor, const RunPair& pair) {
  struct Known {
    std::string text;
    double value;
  };
  std::vector<Known> known;
  for (std::size_t s = 0; s < 2; ++s) {
    const RankFile& rank = pair.side(s).ranks.front();
    const std::string of = std::string(" of ") + side_names[s];
    known.push_back({"the number of ranks" + of, static_cast<double>(rank.world)});
    known.push_back({"the number of micro-batches" + of, static_cast<double>(rank.micro_batches)});
    known.push_back({"the loss scale" + of, rank.loss_scale});
  }
  std::string text;
  for (const Known& one : known) {
    if (one.value == 1 || one.value == 0) continue;
    if (std::fabs(factor - one.value) > 1e-3 * one.value &&
        std::fabs(factor * one.value - 1) > 1e-3)
      continue;
    text += (text.empty() ? "" : " or ") + fmt::format("{} ({:g})", one.text, one.value);
  }
  return text;
}

}  // namespace

std::string_view name(PairPhase phase) {
  constexpr std::array<std::string_view, num_pair_phases> names = {
      "settings", "state", "backward", "reduce", "overflow", "norm", "clip", "update", "cast"};
  return names[static_cast<std::size_t>(phase)];
}

void PairFindings::add(const PairTensor& tensor,
                       const std::function<std::optional<double>(std::size_t i)>& ratio_of) {
  std::vector<std::size_t> wrong;
  std::int64_t compared = 0;
  double largest = 0, first = 0;
  for (std::size_t i = 0; i < tensor.values[0].size(); ++i) {
    const double a = tensor.values[0][i], b = tensor.values[1][i];
    std::optional<double> ratio = 0.0;
    if (!same_bits(a, b)) {
      ++other_bits_;
      ratio = ratio_of(i);
    }
    if (!ratio) {
      ++unjudged_;
      continue;
    }
    if (std::isnan(*ratio)) ratio = HUGE_VAL;
    ++compared;
    largest = std::max(largest, *ratio);
    if (*ratio <= 1) continue;
    if (wrong.empty()) first = *ratio;
    wrong.push_back(i);
  }
  compared_ += compared;
  differing_ += static_cast<std::int64_t>(wrong.size());
  worst_ = std::max(worst_, largest);
  if (first_ || wrong.empty()) return;
  const RunParameter& parameter = pair_->parameter(tensor.parameter);
  const std::vector<std::int64_t> elements = elements_of(parameter.leaf);
  const std::size_t at = wrong.front();
  Divergence d;
  d.step = pair_->number();
  d.phase = report_phase(phase_);
  d.rank = static_cast<int>(tensor.owners[0][at]);
  d.buffer = tensor.buffer;
  d.what = fmt::format("{} (on rank {} there)", tensor.what, tensor.owners[1][at]);
  d.shard_index = static_cast<std::int64_t>(at);
  d.global_index = elements[at];
  d.last_global_index = elements[wrong.back()];
  d.parameter = parameter.name;
  d.coordinates = coordinates_of(parameter, elements[at]);
  d.candidate_value =
      shown_value(tensor.dtypes[0], static_cast<float>(tensor.values[0][at])) + " in A";
  d.reference_value =
      shown_value(tensor.dtypes[1], static_cast<float>(tensor.values[1][at])) + " in B";
  d.differing = static_cast<std::int64_t>(wrong.size());
  d.compared = compared;
  first_ = std::move(d);
  first_ratio_ = first;
  first_worst_ = largest;
  hint(tensor.cause);
  explain(tensor, wrong);
}

/// A property that all differing elements have in common.
void PairFindings::explain(const PairTensor& tensor, const std::vector<std::size_t>& wrong) {
  const auto &a = tensor.values[0], &b = tensor.values[1];
  const auto all = [&](const auto& have) { return std::ranges::all_of(wrong, have); };
  for (std::size_t s = 0; s < 2; ++s) {
    if (all([&](std::size_t i) { return std::isnan(tensor.values[s][i]); }))
      return hint(fmt::format("NaN in {}", side_names[s]));
    if (all([&](std::size_t i) { return tensor.values[s][i] == 0; }))
      return hint(fmt::format("they are 0 in {}: lost, or never written", side_names[s]));
  }
  for (const DType format : {DType::bf16, DType::fp16}) {
    const auto has = [&](std::size_t s) {
      return std::ranges::all_of(tensor.values[s], [&](double x) {
        return x == static_cast<float>(x) && is_number_of(format, static_cast<float>(x));
      });
    };
    if (has(0) != has(1))
      return hint(fmt::format("{} has numbers of {}, {} has not", side_names[has(0) ? 0 : 1],
                              name(format), side_names[has(0) ? 1 : 0]));
  }
  const std::size_t most = *std::ranges::max_element(
      wrong, {}, [&](std::size_t i) { return std::isfinite(a[i]) ? std::fabs(a[i]) : 0; });
  const double factor = b[most] / a[most];
  const bool one_factor = std::isfinite(factor) && factor != 0 && all([&](std::size_t i) {
                            return std::fabs(b[i] - factor * a[i]) <=
                                   1e-3 * std::fabs(b[i]) + 1e-6 * std::fabs(b[most]);
                          });
  if (one_factor && std::fabs(factor - 1) > 1e-3) {
    const std::string known = factor_text(factor, *pair_);
    return hint(fmt::format("B has {:.6g} times the values of A{}{}", factor,
                            known.empty() ? "" : ": ", known));
  }
  for (std::size_t s = 0; s < 2; ++s) {
    const std::vector<std::size_t>& owners = tensor.owners[s];
    const std::set<std::size_t> ranks(owners.begin(), owners.end());
    const std::size_t rank = owners[wrong.front()];
    if (ranks.size() > 1 && all([&](std::size_t i) { return owners[i] == rank; }))
      return hint(fmt::format("only in the shard of rank {} of {}", rank, side_names[s]));
  }
}

void PairFindings::add_scalar(std::size_t rank, const std::string& buffer,
                              const std::string& parameter, double ratio, const std::string& of_a,
                              const std::string& of_b, bool same, const std::string& what) {
  ++compared_;
  other_bits_ += same ? 0 : 1;
  worst_ = std::max(worst_, std::isnan(ratio) ? HUGE_VAL : ratio);
  if (ratio <= 1) return;
  ++differing_;
  if (first_) return;
  Divergence d;
  d.step = pair_->number();
  d.phase = report_phase(phase_);
  d.rank = static_cast<int>(rank);
  d.buffer = buffer;
  d.parameter = parameter;
  d.what = what;
  d.candidate_value = of_a;
  d.reference_value = of_b;
  d.differing = d.compared = 1;
  first_ = std::move(d);
  first_ratio_ = first_worst_ = ratio;
}

void PairFindings::hint(const std::string& text) {
  if (first_ && first_->hint.empty()) first_->hint = text;
}

void PairFindings::note(const std::string& text) {
  if (note_.find(text) == std::string::npos) note_ += (note_.empty() ? "" : "; ") + text;
}

void PairFindings::missing(const std::string& text) {
  if (missing_.find(text) == std::string::npos)
    missing_ += (missing_.empty() ? "not recorded: " : ", ") + text;
}

Result PairFindings::result(const std::string& programs, const std::string& replay) const {
  Result r;
  r.id = fmt::format("against/{}/step{:06}", name(phase_), pair_->number());
  r.suite = "against";
  r.group = std::string(name(phase_));
  r.side = programs;
  r.exactness = other_bits_ == 0 ? "bitwise" : "bounded";
  r.held_to = "any-order";
  r.replay = replay;
  r.compared = compared_;
  r.differing = differing_;
  r.worst_ratio = worst_;
  const auto append = [&](const std::string& text) {
    if (!text.empty()) r.reason += (r.reason.empty() ? "" : "; ") + text;
  };
  append(note_);
  append(missing_);
  if (first_) {
    r.status = Status::fail;
    r.divergence = first_;
    if (std::isfinite(first_ratio_)) {
      r.divergence->order =
          fmt::format("the difference is {:.3g} times the sum of both bounds", first_ratio_);
      if (std::isfinite(first_worst_) && first_worst_ > 1.01 * first_ratio_)
        r.divergence->order +=
            fmt::format("; elsewhere in this tensor up to {:.3g} times", first_worst_);
    }
    r.reason = describe(*first_);
    return r;
  }
  r.status = compared_ > 0 && unjudged_ == 0 ? Status::pass : Status::skipped;
  if (r.status == Status::skipped && r.reason.empty()) r.reason = "nothing to compare";
  return r;
}

}  // namespace zeroproof::verification
