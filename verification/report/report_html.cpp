// The report as one page (report.html): the verdict and notes as text, everything else as JSON that
// the page draws. The text report comes last. Well-formed as XML.

#include <algorithm>
#include <array>
#include <map>

#include "verification/cli/program/contract_version.hpp"
#include "verification/report/failure_blocks.hpp"
#include "verification/report/format.hpp"
#include "verification/report/json_types.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/page.hpp"
#include "verification/report/report_failures.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t most_articles = 50;

std::string verdict(const RunReport& report, bool strict) {
  const int code = exit_code(report, strict);
  const char* kind = code == 0 ? "good" : code == 4 ? "warn" : "bad";
  std::string counts;
  for (int i = 0; i < num_statuses; ++i) {
    const auto status = static_cast<Status>(i);
    const std::int64_t count = report.count(status);
    if (count == 0 && status != Status::pass && status != Status::fail) continue;
    counts += (counts.empty() ? "" : ", ") + grouped(count) + " " + std::string(name(status));
  }
  const std::int64_t passed = report.count(Status::pass);
  const auto all = static_cast<std::int64_t>(report.results.size());
  const std::string by =
      passed < all ? fmt::format(" by {} of {} cases", grouped(passed), grouped(all)) : "";
  const bool bounded = std::ranges::any_of(report.results, [](const Result& result) {
    return result.status == Status::pass && result.exactness == "bounded";
  });
  const std::string equal = bounded ? "equal, or within its bound." : "equal.";
  const std::string text = code == 0 ? "Proved" + by + ": everything that was compared is " + equal
                           : code == 4 ? "Nothing was proved: no case passed."
                                       : "Not proved: see the first differences below.";
  return fmt::format(
      "<div class=\"verdict {}\"><strong>{}</strong><br/>{} in {:.1f} s, exit code {}</div>\n",
      kind, text, counts, report.seconds, code);
}

std::string self_test(const SelfTest& test) {
  if (!test.not_run.empty())
    return "<p class=\"warn\">Self-test not run: " + escaped(test.not_run) + "</p>\n";
  if (test.differing.empty()) {
    return fmt::format("<p>Self-test: {} trajectories and tables as committed.</p>\n", test.rows);
  }
  std::string names;
  for (const std::string& row : test.differing) names += (names.empty() ? "" : ", ") + row;
  return fmt::format("<p class=\"bad\">Self-test: {} of {} are not as committed: {}</p>\n",
                     test.differing.size(), test.rows, escaped(names));
}

std::string summary(const RunReport& report, bool strict) {
  std::string out =
      fmt::format("<h1>zeroproof {}, numeric contract {}</h1>\n", ZP_VERSION, contract_version);
  if (report.input.bytes > 0) {
    out += fmt::format("<p>{}: {} ({} bytes)</p>\n", escaped(report.input.kind),
                       escaped(report.input.path), grouped(report.input.bytes));
  }
  out += verdict(report, strict);
  if (!report.held_to.empty())
    out += "<p>Operations are held to " + escaped(report.held_to) +
           ", not to the contract's bits.</p>\n";
  JudgedBy judged;
  for (const Result& result : report.results) judged.add(result.judged.value_or(JudgedBy{}));
  if (judged.total() > 0) out += "<p>Judged: " + to_string(judged) + ".</p>\n";
  for (const std::string& note : report.notes) out += "<p>Note: " + escaped(note) + ".</p>\n";
  return report.self_test ? out + self_test(*report.self_test) : out;
}

/// Number of values at each distance; null if none was counted.
Json ulp_counts(const UlpHistogram& ulps) {
  if (ulps.sign_or_nan == 0 && ulps.largest == 0) return nullptr;
  Json counts = Json::array();
  for (const std::int64_t count : ulps.counts) counts.push_back(count);
  counts.push_back(ulps.sign_or_nan);
  return counts;
}

void add_failures(Json& page, const RunReport& report) {
  const std::vector<FailureBlock> blocks = failure_blocks(report.results);
  const std::size_t shown = std::min(blocks.size(), most_articles);
  Json failures = Json::array();
  for (std::size_t i = 0; i < shown; ++i) {
    const Result& result = *blocks[i].front();
    failures.push_back({{"status", name(result.status)},
                        {"id", result.id},
                        {"details", details_of(result, repeat_lines(blocks[i]))},
                        {"ulps", ulp_counts(result.ulps)}});
  }
  page["failures"] = std::move(failures);
  page["more_causes"] = blocks.size() - shown;
}

/// Every training: its losses, and its hash with the cases that have this hash.
Json trainings_value(const RunReport& report) {
  Json trainings = Json::array();
  for (const TrainingTrace& trace : report.traces) {
    std::int64_t cases = 0, equal = 0;
    for (const Result& result : report.results) {
      if (!result.training) continue;
      const CaseSpec spec = training_spec(result);
      if (spec.workload != trace.workload || spec.recipe != trace.recipe ||
          spec.dtype != trace.dtype)
        continue;
      if (spec.place.grad_sum != trace.grad_sum) continue;
      ++cases;
      equal +=
          result.status == Status::pass && result.training->candidate_hash == trace.hash ? 1 : 0;
    }
    Json steps = Json::array();
    for (const TrainingStep& step : trace.steps)
      steps.push_back({number_or_null(step.loss), step.skipped});
    trainings.push_back(
        {{"title", trace.workload + " " + trace.recipe + " " + std::string(name(trace.dtype))},
         {"hash", trace.hash ? to_hex(*trace.hash) : "no hash"},
         {"cases", cases},
         {"equal", equal},
         {"steps", std::move(steps)}});
  }
  return trainings;
}

Json share_value(const VisitedAxis::Share& share) { return {share.visited, share.possible}; }

Json axes_value(const RunReport& report) {
  Json axes = Json::array();
  for (const VisitedAxis& axis : report.axes) {
    Json pairs = Json::array();
    for (const VisitedAxis::Share& share : axis.pairs) pairs.push_back(share_value(share));
    axes.push_back(
        {{"name", axis.name}, {"values", share_value(axis.values)}, {"pairs", std::move(pairs)}});
  }
  return axes;
}

/// Table, row and column of a case, and in each cell how many passed, failed, and were not judged.
Json cells_value(const RunReport& report) {
  using Place = std::array<std::string, 3>;
  std::vector<std::pair<Place, std::array<std::int64_t, 3>>> cells;
  std::map<Place, std::size_t> known;
  for (const Result& result : report.results) {
    Place place = {result.suite, result.group, result.side.empty() ? "cases" : result.side};
    if (result.training) {
      const CaseSpec spec = training_spec(result);
      place = {spec.workload + " " + spec.recipe,
               std::string(name(spec.implementation)) + " " + std::string(name(spec.mode)) + " " +
                   std::string(name(spec.dtype)) + spec.place.id(),
               "stage " + std::to_string(spec.stage) + ", " + spec.world.id()};
    }
    const auto [at, added] = known.emplace(place, cells.size());
    if (added) cells.push_back({place, {}});
    const std::size_t kind = result.status == Status::pass ? 0 : failed(result.status) ? 1 : 2;
    ++cells[at->second].second[kind];
  }
  Json out = Json::array();
  for (const auto& [place, counts] : cells)
    out.push_back({place[0], place[1], place[2], counts[0], counts[1], counts[2]});
  return out;
}

/// Reasons of the cases with these statuses, each with the number of its cases.
Json reasons_value(const RunReport& report, std::initializer_list<Status> statuses) {
  std::vector<std::pair<std::string, std::int64_t>> reasons;
  for (const Result& result : report.results) {
    if (std::ranges::find(statuses, result.status) == statuses.end()) continue;
    const bool passed = result.status == Status::pass;
    if (passed && result.reason.empty()) continue;
    const std::string text =
        passed ? result.reason : std::string(name(result.status)) + ": " + result.reason;
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& r) { return r.first == text; });
    known == reasons.end() ? void(reasons.emplace_back(text, 1)) : void(++known->second);
  }
  Json out = Json::array();
  for (const auto& [text, count] : reasons) out.push_back({text, count});
  return out;
}

}  // namespace

std::string to_html(const RunReport& report, bool strict) {
  Json page = Json::object();
  add_failures(page, report);
  page["trainings"] = trainings_value(report);
  page["axes"] = axes_value(report);
  page["cells"] = cells_value(report);
  page["not_judged"] = reasons_value(report, {Status::skipped, Status::mistrusted});
  page["remarks"] = reasons_value(report, {Status::pass});
  page["machine"] = Json::array();
  for (const Capability& capability : report.capabilities)
    page["machine"].push_back({capability.name, capability.available, capability.detail});
  return filled_page(report_page, {{"summary", summary(report, strict)},
                                   {"text", escaped(to_text(report, {}), Within::element)},
                                   {"report", script_json(page)}});
}

}  // namespace zeroproof::verification
