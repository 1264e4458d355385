#include "verification/training/training_screen.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "verification/cases/id_pattern.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/report/format.hpp"
#include "verification/report/loss_chart.hpp"
#include "verification/report/report_style.hpp"
#include "verification/report/skip_lines.hpp"
#include "verification/training/training_cases.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t columns = 98;

/// Comma-separated words in lines that begin with two blanks.
std::string filled(const std::vector<std::string>& words) {
  std::string out;
  std::string line = " ";
  for (const std::string& word : words) {
    if (line.size() + 1 + word.size() > columns) {
      out += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return out + line + "\n";
}

/// The values of every part of a case id in which the cases differ.
std::vector<std::string> varied_parts(const TrainingCases& cases) {
  std::vector<std::vector<std::string>> values;
  for (const auto& [spec, result] : cases) {
    std::vector<std::string> parts = id_parts(result->id);
    parts[1] = shown_recipe(parts[1]);
    values.resize(std::max(values.size(), parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (std::ranges::find(values[i], parts[i]) == values[i].end()) values[i].push_back(parts[i]);
    }
  }
  constexpr std::size_t most = 8;
  std::vector<std::string> words;
  for (const std::vector<std::string>& of_part : values) {
    if (of_part.size() < 2) continue;
    for (std::size_t i = 0; i < std::min(of_part.size(), most); ++i) words.push_back(of_part[i]);
    if (of_part.size() > most) words.push_back(fmt::format("and {} more", of_part.size() - most));
    words.back() += ";";
  }
  if (!words.empty()) words.back().back() = '.';
  return words;
}

void add_sentence(std::string& out, const TrainingCases& cases, const Paint& paint) {
  TrainingCases passed;
  std::size_t different = 0;
  for (const auto& one : cases) {
    const Status status = one.second->status;
    if (status == Status::pass) passed.push_back(one);
    if (failed(status)) ++different;
  }
  if (different > 0) {
    out += "\n" +
           paint("31", fmt::format("not proved: {} of {} parallel configurations failed", different,
                                   cases.size())) +
           "\n";
    return;
  }
  if (passed.empty()) return;
  out += "\n" + paint("32", "proved") +
         fmt::format(
             ": production has the bits of the reference in {} parallel configuration{},\n"
             "and the reference those of the undistributed optimizer.\n",
             grouped(static_cast<std::int64_t>(passed.size())), passed.size() == 1 ? "" : "s");
  const std::vector<std::string> words = varied_parts(passed);
  out += words.empty() ? "  " + passed.front().second->id + "\n" : filled(words);
}

struct PhaseRow {
  std::vector<BufferId> buffers;
  std::int64_t compared = 0;
  std::int64_t differing = 0;
};

void add_phases(std::string& out, const TrainingCases& cases, const Paint& paint) {
  std::map<Phase, PhaseRow> rows;
  for (const auto& [spec, result] : cases) {
    for (const PhaseTally& tally : result->training->tallies) {
      PhaseRow& row = rows[tally.phase];
      if (std::ranges::find(row.buffers, tally.buffer) == row.buffers.end())
        row.buffers.push_back(tally.buffer);
      row.compared += tally.compared;
      row.differing += tally.differing;
    }
  }
  if (rows.empty()) return;
  out += "\nphase             compared    differing\n";
  for (auto& [phase, row] : rows) {
    std::ranges::sort(row.buffers);
    std::string buffers;
    for (const BufferId buffer : row.buffers) buffers += " " + std::string(name(buffer));
    if (buffers.size() > 50) buffers = buffers.substr(0, buffers.rfind(' ', 46)) + " ...";
    out += fmt::format("{:<8} {:>17} {:>12}  {} {}\n", name(phase), grouped(row.compared),
                       grouped(row.differing),
                       row.differing == 0 ? paint("32", "equal ") : paint("31", "DIFFER"), buffers);
  }
}

void add_hashes(std::string& out, const TrainingCases& cases, const Paint& paint) {
  std::map<std::tuple<std::string, std::string, DType>, std::map<Digest, int>> hashes;
  for (const auto& [spec, result] : cases) {
    const std::optional<Digest>& hash = result->training->candidate_hash;
    if (hash) ++hashes[{spec.workload, spec.recipe, spec.dtype}][*hash];
  }
  constexpr std::size_t most = 20;
  std::size_t shown = 0;
  if (!hashes.empty()) out += "\n";
  for (const auto& [key, counts] : hashes) {
    const bool one = counts.size() == 1;
    if (one && ++shown > most) continue;
    for (const auto& [digest, count] : counts) {
      const auto& [workload, recipe, dtype] = key;
      out += fmt::format("trajectory {} {:<16} {}  {}  {}{}\n", workload, shown_recipe(recipe),
                         name(dtype), to_hex(digest),
                         count == 1 ? "1 case" : std::to_string(count) + " cases",
                         !one         ? paint("31", ", NOT ALL EQUAL")
                         : count == 1 ? ""
                                      : ", all equal");
    }
  }
  if (shown > most)
    out += fmt::format("... and {} more trajectories; --rows and the JSON report have them all\n",
                       shown - most);
}

/// "" if the cases are of several kinds: the text is limited to one screen, and --rows has the
/// others.
std::string skips_of_one_kind(const TrainingCases& cases) {
  constexpr std::size_t most = 4;
  std::vector<const Result*> results;
  for (const auto& [spec, result] : cases) {
    const CaseSpec& first = cases.front().first;
    if (std::tie(spec.workload, spec.recipe, spec.dtype) !=
        std::tie(first.workload, first.recipe, first.dtype)) {
      return {};
    }
    results.push_back(result);
  }
  return skip_lines(results, most);
}

}  // namespace

std::string training_screen(const RunReport& report, bool colour) {
  constexpr std::size_t shown_traces = 4;
  const Paint paint{colour};
  const TrainingCases cases = training_cases(report);
  if (cases.empty()) return {};
  std::string out;
  add_sentence(out, cases, paint);
  const std::string charts = loss_charts(
      {report.traces.begin(), report.traces.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                          report.traces.size(), shown_traces))});
  const std::string skips = skips_of_one_kind(cases);
  if (!charts.empty() || !skips.empty()) out += "\n" + charts + skips;
  add_phases(out, cases, paint);
  add_hashes(out, cases, paint);
  return out;
}

}  // namespace zeroproof::verification
