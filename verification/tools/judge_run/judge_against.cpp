#include "verification/tools/judge_run/judge_against.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_findings.hpp"
#include "verification/tools/judge_run/steps_suite.hpp"

namespace zeroproof::verification {
namespace {

bool all_equal(const Result& r) { return r.status == Status::pass && r.exactness == "bitwise"; }

std::string pair_cell_of(const Result& r) {
  if (failed(r.status)) return "DIFFERS";
  if (r.status != Status::pass) return "-";
  if (r.exactness == "bitwise") return "equal";
  return r.worst_ratio > 0 ? fmt::format("{:.2g}", r.worst_ratio) : "within";
}

const Suite& against_suite() {
  static const StepsSuite suite(
      "against",
      {9,
       "equal: the same bits; number: largest difference, where 1 is the sum of the bounds of "
       "both\n"
       "sides; within: each side is right by itself; -: not recorded or not judged\n",
       pair_cell_of,
       [](const Result& a, const Result& b) { return all_equal(a) == all_equal(b); }});
  return suite;
}

/// Steps of a range with the files of both sides. Errors: as judge_against.
std::map<std::int64_t, std::array<std::vector<std::string>, 2>> common_steps(
    const JudgeAgainstSettings& settings) {
  std::map<std::int64_t, std::array<std::vector<std::string>, 2>> steps;
  for (std::size_t s = 0; s < 2; ++s) {
    for (auto& [number, files] : recorded_steps(settings.folders[s]))
      steps[number][s] = std::move(files);
  }
  bool any = false;
  for (const auto& [number, files] : steps) {
    if (number < settings.first || number > settings.last) continue;
    any = true;
    for (std::size_t s = 0; s < 2; ++s) {
      if (files[s].empty())
        refuse_recording(settings.folders[s], fmt::format("step {} is not recorded", number),
                         fmt::format("it is in {}", settings.folders[1 - s]),
                         "record the same steps, or choose steps of both with --steps");
    }
  }
  ZP_CHECK(any, ErrorCode::config,
           fmt::format("no step from {} to {} is recorded", settings.first, settings.last),
           fmt::format("the recordings have {} steps, from {} to {}", steps.size(),
                       steps.begin()->first, steps.rbegin()->first),
           "choose others with --steps");
  return steps;
}

/// The verdict of judge-run about a phase of one side.
RunFindings judged_alone(PairPhase phase, const RunStep& step, const RunStep* before) {
  const RunJudgeSettings any_format;
  switch (phase) {
    case PairPhase::state:
      return judge_state(step, before);
    case PairPhase::overflow:
      return judge_overflow(step);
    case PairPhase::norm:
      return judge_norm(step, any_format);
    case PairPhase::clip:
      return judge_clip(step, any_format);
    case PairPhase::update:
      return judge_update(step, before);
    case PairPhase::cast:
      return judge_cast(step);
    default:
      return judge_reduce(step, any_format);
  }
}

/// Adds the mistake of the one side that is wrong by itself.
void explain(Result& result, PairPhase phase, const RunPair& pair,
             const std::array<const RunStep*, 2>& before) {
  if (!result.divergence || phase == PairPhase::settings || phase == PairPhase::backward) return;
  std::array<std::optional<Divergence>, 2> alone;
  for (std::size_t s = 0; s < 2; ++s)
    alone[s] = judged_alone(phase, pair.side(s), before[s]).result("", "").divergence;
  if (alone[0].has_value() == alone[1].has_value()) return;
  const std::size_t wrong = alone[0] ? 0 : 1;
  const std::string cause = alone[wrong]->hint;
  std::string& hint = result.divergence->hint;
  const std::string& why = cause.empty() ? hint : cause;
  hint = fmt::format("{} is wrong by itself{}{}", side_names[wrong], why.empty() ? "" : "; ", why);
}

std::string program_of(const RunStep& step) {
  return fmt::format("{}, {} {}", step.ranks.front().program, step.world(),
                     step.world() == 1 ? "rank" : "ranks");
}

}  // namespace

RunReport judge_against(const JudgeAgainstSettings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  const auto steps = common_steps(settings);
  RunReport report;
  report.suites = {&against_suite()};
  std::array<std::optional<RunStep>, 2> before;
  std::array<std::int64_t, 2> unjudged = {0, 0};  // first and last step
  double largest = 0;
  std::size_t done = 0;
  for (const auto& [number, files] : steps) {
    ++done;
    // The step before the first judged one has the state that it begins with.
    if (number > settings.last || number + 1 < settings.first) continue;
    if (files[0].empty() || files[1].empty()) continue;
    if (settings.progress)
      settings.progress(static_cast<double>(done - 1) / static_cast<double>(steps.size()),
                        fmt::format("step {}", number));
    std::array<std::optional<RunStep>, 2> now = {read_run_step(files[0]), read_run_step(files[1])};
    if (number >= settings.first) {
      const RunPair pair(*now[0], *now[1]);
      const bool is_first = number == steps.begin()->first;
      ZP_CHECK(!is_first || pair.lone().empty(), ErrorCode::io,
               fmt::format("step {}: a parameter is recorded in one recording only", number),
               "both recordings are of one training, under two settings",
               "record the same model twice, with the same names");
      const bool follows = before[0] && before[0]->number() + 1 == number;
      std::optional<RunPair> then;
      if (follows) then.emplace(*before[0], *before[1]);
      const RunPair* last = then ? &*then : nullptr;
      const std::array<const RunStep*, 2> last_steps = {follows ? &*before[0] : nullptr,
                                                        follows ? &*before[1] : nullptr};
      std::string replay =
          fmt::format("zeroproof judge-run {} --against {} --steps {}",
                      shell_word(settings.folders[0]), shell_word(settings.folders[1]), number);
      if (settings.phases.gradients_within)
        replay += fmt::format(" --gradients-within {:g}", *settings.phases.gradients_within);
      const std::string programs =
          fmt::format("A: {}; B: {}", program_of(*now[0]), program_of(*now[1]));
      const std::array<PairFindings, num_pair_phases> found = {
          compare_settings(pair),
          compare_state(pair, last, is_first),
          compare_backward(pair, last, settings.phases, largest),
          compare_reduce(pair, settings.phases),
          compare_overflow(pair),
          compare_norm(pair),
          compare_clip(pair),
          compare_update(pair),
          compare_cast(pair)};
      for (int k = 0; k < num_pair_phases; ++k) {
        const auto phase = static_cast<PairPhase>(k);
        Result result = found[static_cast<std::size_t>(k)].result(programs, replay);
        explain(result, phase, pair, last_steps);
        if (phase == PairPhase::backward && found[static_cast<std::size_t>(k)].unjudged() > 0) {
          if (unjudged[0] == 0) unjudged[0] = number;
          unjudged[1] = number;
        }
        report.results.push_back(std::move(result));
      }
      for (std::size_t s = 0; s < 2; ++s) {
        const std::string who = fmt::format("{}: {}", side_names[s], program_of(*now[s]));
        if (std::ranges::find(report.notes, who) == report.notes.end() && report.notes.size() < 8)
          report.notes.push_back(who);
      }
    }
    before = std::move(now);
  }
  if (unjudged[0] > 0)
    report.notes.push_back(fmt::format(
        "backward not judged in steps {} to {} (parameters differ in bits), up to {:.2g} apart: "
        "--gradients-within",
        unjudged[0], unjudged[1], largest));
  // Settings and the decision about overflows alone prove nothing.
  const auto proves = [](const Result& r) {
    return r.group != "settings" && r.group != "overflow" && r.status != Status::skipped;
  };
  if (std::ranges::none_of(report.results, proves)) {
    for (Result& r : report.results) {
      if (r.status == Status::pass) {
        r.status = Status::skipped;
        r.reason = "nothing but settings can be compared";
      }
    }
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace zeroproof::verification
