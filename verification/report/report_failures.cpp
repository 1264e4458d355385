#include "verification/report/report_failures.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/printable.hpp"
#include "verification/report/failure_blocks.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t most_shown = 8;

/// The first difference of a run or of one call, with its values.
std::string place_lines(const Divergence& d) {
  const std::string what = d.buffer + ": " + d.what;
  std::string out;
  if (!d.call.empty()) {
    const std::string element = d.shard_index < 0 ? "" : fmt::format("[{}]", d.shard_index);
    out = fmt::format("  first at  {}{}{}\n", d.buffer + element, d.buffer.empty() ? "" : "  ",
                      d.call);
  } else {
    const std::string phase = d.phase ? "  phase " + std::string(name(*d.phase)) : "";
    out = fmt::format("  first at  step {}{}  rank {}  buffer {}\n", d.step, phase, d.rank, what);
  }
  if (!d.parameter.empty() && d.global_index < 0) {
    out += "  tensor    " + d.parameter + "\n";
  } else if (!d.parameter.empty()) {
    out +=
        fmt::format("  element   {}{}  shard index {}  global index {} (last differing: {})\n",
                    d.parameter, d.coordinates, d.shard_index, d.global_index, d.last_global_index);
  }
  if (!d.word.empty()) out += "  element   " + d.word + "\n";
  if (!d.candidate_value.empty()) {
    out += fmt::format("  values    got {}  want {}{}{}\n", d.candidate_value,
                       d.reference_value.empty() ? "NaN" : d.reference_value,
                       d.exact_value.empty() ? "" : "  exact ", d.exact_value);
  }
  for (const auto& [name, value] : d.inputs) out += "  input     " + name + " " + value + "\n";
  if (d.call.empty() && d.compared > 0) {
    out += fmt::format("  extent    {} of {} elements of this buffer on this rank differ\n",
                       grouped(d.differing), grouped(d.compared));
  }
  return out;
}

/// A hint from the data; every further clause has a separate line.
std::string labelled_line(const std::string& label, std::string text) {
  if (text.empty()) return "";
  for (std::size_t clause = text.find("; "); clause != std::string::npos; clause = text.find("; "))
    text.replace(clause, 2, "\n            ");
  return fmt::format("  {:<10}{}\n", label, text);
}

/// The buffers that were equal in all phases before the one that differs.
std::string equal_before(const Divergence& d, const TrainingRun& run) {
  std::string equal;
  for (const PhaseTally& tally : run.tallies) {
    if (tally.phase < d.phase && tally.differing == 0 && tally.against == "reference" &&
        d.step > 0) {
      equal += " " + std::string(name(tally.buffer));
    }
  }
  return equal.empty() ? "" : "  equal     in all earlier phases:" + equal + "\n";
}

/// The effect on the loss curve.
std::string loss_line(const TrainingRun& run) {
  const std::size_t steps = std::min(run.losses.size(), run.reference_losses.size());
  double apart = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double difference = std::abs(run.losses[i] - run.reference_losses[i]);
    if (std::isnan(run.reference_losses[i])) return "";  // recordings may have no losses
    if (std::isnan(difference)) return fmt::format("  losses    not a number in step {}\n", i + 1);
    if (difference > apart) at = i;
    apart = std::max(apart, difference);
  }
  if (steps == 0) return "";
  if (apart == 0) return fmt::format("  losses    the reference's, in all {} steps\n", steps);
  return fmt::format(
      "  losses    {:.4f} -> {:.4f}, the reference's {:.4f} -> {:.4f}; furthest apart, by {:.2g}, "
      "in step "
      "{}\n",
      run.losses.front(), run.losses[steps - 1], run.reference_losses.front(),
      run.reference_losses[steps - 1], apart, at + 1);
}

/// The first case of a block in full, and the list of its other cases.
void add_failure(std::string& out, const FailureBlock& block, const Paint& paint) {
  const Result& result = *block.front();
  std::string title(name(result.status));
  std::transform(title.begin(), title.end(), title.begin(),
                 [](char c) { return static_cast<char>(std::toupper(c)); });
  out += "\n" + paint.status(result.status, title) + " " + result.id + "\n" +
         details_of(result, repeat_lines(block));
}

void add_crowds(std::string& out, const std::vector<Result>& results, const Paint& paint) {
  std::map<std::pair<Status, std::string>, std::vector<const Result*>> crowds;
  for (const Result& result : results) {
    if ((result.status != Status::pass || !result.reason.empty()) && !failed(result.status)) {
      crowds[{result.status, result.reason}].push_back(&result);
    }
  }
  for (const auto& [key, members] : crowds) {
    const auto count = static_cast<std::int64_t>(members.size());
    out += "\n" + paint.status(key.first, std::string(name(key.first))) +
           fmt::format(" {}, the first {}\n  reason    {}\n",
                       count == 1 ? "1 case" : grouped(count) + " cases", members.front()->id,
                       printable(key.second));
  }
}

}  // namespace

std::string details_of(const Result& result, const std::string& before_replay) {
  // the position has the count already
  const bool has_position = result.divergence && result.divergence->call.empty();
  std::string out = has_position ? "" : "  reason    " + result.reason + "\n";
  if (result.divergence) out += place_lines(*result.divergence);
  if (result.divergence && result.training) {
    out += equal_before(*result.divergence, *result.training) + loss_line(*result.training);
  } else if (result.differing > 0) {
    out += fmt::format("  {}    {} of {} results {}\n", has_position ? "in all" : "extent",
                       grouped(result.differing), grouped(result.compared),
                       result.judged ? "are in no legal order" : "differ");
  }
  if (result.divergence)
    out += labelled_line("hint", result.divergence->hint) +
           labelled_line("order", result.divergence->order) +
           (result.divergence->message
                ? labelled_line("message", describe(*result.divergence->message))
                : "");
  if (result.judged && result.judged->total() > 0)
    out += "  judged    " + to_string(*result.judged) + "\n";
  if (result.ulps.sign_or_nan > 0 || result.ulps.largest > 0) {
    out += "  ulps      " + to_string(result.ulps) + "\n";
  }
  const std::size_t then = result.reason.find(" (then: ");
  if (has_position && then != std::string::npos)
    out += "  then      " + result.reason.substr(then + 8) + "\n";
  return printable_lines(out + before_replay + "  replay    " + result.replay + "\n");
}

std::string failures_text(const std::vector<Result>& results, bool colour) {
  const Paint paint{colour};
  std::string out;
  const std::vector<FailureBlock> blocks = failure_blocks(results);
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i < most_shown) add_failure(out, blocks[i], paint);
    if (i >= most_shown) hidden += blocks[i].size();
  }
  if (hidden > 0) {
    out +=
        fmt::format("\n... and {} more that did not pass; the JSON report has them all\n", hidden);
  }
  add_crowds(out, results, paint);
  return out;
}

}  // namespace zeroproof::verification
