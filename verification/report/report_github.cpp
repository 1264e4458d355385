#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <tuple>

#include "common/base/printable.hpp"
#include "verification/report/failure_blocks.hpp"
#include "verification/report/format.hpp"
#include "verification/report/github.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/report_failures.hpp"
#include "verification/report/report_style.hpp"
#include "verification/report/verdict_lines.hpp"

namespace zeroproof::verification {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_annotations = 10;   // of one kind in a step; GitHub drops the others
constexpr std::size_t most_message = 4096;     // a page shows some lines
constexpr std::size_t most_summary = 1 << 20;  // larger ones are not shown at all
constexpr std::size_t most_details = 10;
constexpr std::size_t room_for_the_end = 100;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A workflow command ends at a line break, a property also at a comma, and its name at a colon.
std::string command_text(const std::string& text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool escape = std::strchr(property ? "%\r\n:," : "%\r\n", c) != nullptr && c != '\0';
    out += escape ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

std::string from_workspace(const std::string& file) {
  const std::string workspace = variable("GITHUB_WORKSPACE");
  std::error_code error;
  const fs::path path = fs::weakly_canonical(file, error);
  if (workspace.empty() || error) return file;
  const std::string inside =
      path.lexically_relative(fs::weakly_canonical(workspace, error)).generic_string();
  return inside.empty() || inside.starts_with("..") ? file : inside;
}

/// Text as Markdown shows it: every character that may be markup is a reference.
std::string markdown(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x80 || std::isalnum(byte) || std::strchr(" -.,/=+()", c) != nullptr;
    out += plain ? std::string(1, c) : fmt::format("&#{};", byte);
  }
  return out;
}

bool counts_as_failed(const Result& result, bool strict) {
  return failed(result.status) || (strict && result.status == Status::mistrusted);
}

/// The blocks of failures, with runs that first differ in the same buffer as one: a wrong kernel
/// differs in every configuration.
std::vector<FailureBlock> causes_of(const std::vector<Result>& results) {
  const auto place = [](const Result& result) {
    const auto& d = result.divergence;
    return std::tuple(result.training.has_value(), result.group, result.status,
                      d ? d->phase : std::nullopt, d ? d->buffer : result.id);
  };
  std::vector<FailureBlock> causes;
  for (const FailureBlock& block : failure_blocks(results)) {
    const auto same = std::ranges::find_if(causes, [&](const FailureBlock& other) {
      return block.front()->training && place(*other.front()) == place(*block.front());
    });
    if (same == causes.end()) {
      causes.push_back(block);
    } else {
      same->insert(same->end(), block.begin(), block.end());
    }
  }
  return causes;
}

std::string more_runs(std::size_t count) {
  return count == 0 ? "" : fmt::format("  also in   {} more runs\n", count);
}

std::string row_text(const Result& result) {
  if (result.divergence) return describe(*result.divergence);
  if (!result.reason.empty()) return result.reason;
  const std::string other =
      result.differing == 0 ? "" : ", " + grouped(result.differing) + " with other bits";
  return grouped(result.compared) + " results" + other;
}

}  // namespace

std::string github_command(const std::string& level, const SourcePlace& place,
                           const std::string& title, const std::string& message) {
  std::string properties;
  if (!place.file.empty()) {
    properties += "file=" + command_text(printable(from_workspace(place.file)), true) + ",";
    if (place.line > 0) properties += fmt::format("line={},", place.line);
  }
  properties += "title=" + command_text(printable(title), true);
  std::string text = printable_lines(message);
  if (text.size() > most_message) text = text.substr(0, most_message) + " ...";
  while (text.ends_with('\n')) text.pop_back();
  return "::" + level + " " + properties + "::" + command_text(text, false) + "\n";
}

std::string to_github(const RunReport& report, bool strict, const SourcePlace& place) {
  std::string out;
  const auto add = [&](const std::string& level, const std::string& title,
                       const std::string& message) {
    out += github_command(level, place, "zeroproof: " + title, message);
  };
  if (report.self_test && !report.self_test->differing.empty())
    add("error", "self-test",
        "trajectories and tables are not as committed: this program cannot be trusted");
  const std::vector<FailureBlock> blocks = causes_of(report.results);
  const std::size_t shown =
      blocks.size() <= most_annotations ? blocks.size() : most_annotations - 1;
  for (std::size_t i = 0; i < shown; ++i) {
    const Result& first = *blocks[i].front();
    add("error", std::string(name(first.status)) + " " + first.group,
        first.id + "\n" + details_of(first) +
            (first.training ? more_runs(blocks[i].size() - 1) : repeat_lines(blocks[i])));
  }
  if (shown < blocks.size())
    add("error", "more failures",
        fmt::format("{} causes more; the job summary and the reports have all cases",
                    blocks.size() - shown));
  const auto mistrusted = std::ranges::find(report.results, Status::mistrusted, &Result::status);
  if (mistrusted != report.results.end())
    add(strict ? "error" : "warning", "mistrusted",
        fmt::format("{} cases prove little, the first {}: {}", report.count(Status::mistrusted),
                    mistrusted->id, mistrusted->reason));
  if (out.empty() && exit_code(report, strict) != 0)
    add("error", "nothing was proved", "no case passed");
  return out;
}

std::vector<SummaryRow> summary_rows(const RunReport& report, bool strict) {
  std::vector<const Result*> order;
  for (const Result& result : report.results) order.push_back(&result);
  std::ranges::stable_sort(order, {}, [&](const Result* result) {
    return counts_as_failed(*result, strict) ? 0 : result->status != Status::pass ? 1 : 2;
  });
  std::vector<SummaryRow> rows;
  for (const Result* result : order) {
    rows.push_back({std::string(name(result->status)), result->id, row_text(*result),
                    counts_as_failed(*result, strict) ? details_of(*result) : ""});
  }
  return rows;
}

std::string job_summary(const std::string& title, const std::vector<SummaryRow>& rows,
                        std::size_t most) {
  std::string out = "### " + markdown(title) + "\n\n| verdict | what | |\n|---|---|---|\n";
  std::size_t shown = 0;
  for (const SummaryRow& row : rows) {
    const std::string line = "| " + markdown(row.verdict) + " | " + markdown(row.name) + " | " +
                             markdown(row.text) + " |\n";
    if (out.size() + line.size() + room_for_the_end > most) break;
    out += line;
    ++shown;
  }
  if (shown < rows.size()) {
    out += fmt::format("\n{} more do not fit here; the reports have all of them\n",
                       rows.size() - shown);
    return out.size() <= most ? out : "";
  }
  out += "\n";
  std::size_t details = 0;
  for (const SummaryRow& row : rows) {
    if (row.details.empty()) continue;
    const std::string fold = "<details><summary>" + markdown(row.name) + "</summary>\n\n<pre>" +
                             escaped(row.details, Within::element) + "</pre>\n\n</details>\n\n";
    if (++details > most_details || out.size() + fold.size() > most) break;
    out += fold;
  }
  return out;
}

std::string append_job_summary(const std::string& title, const std::vector<SummaryRow>& rows) {
  const std::string file = variable("GITHUB_STEP_SUMMARY");
  if (file.empty()) return "";
  std::error_code error;
  const std::uintmax_t there = fs::exists(file, error) ? fs::file_size(file, error) : 0;
  const std::string text =
      error || there >= most_summary ? "" : job_summary(title, rows, most_summary - there);
  errno = 0;
  std::ofstream stream(file, std::ios::binary | std::ios::app);
  stream << text;
  stream.close();
  if (text.empty() && stream.good() && !error)
    return "the job summary " + file + " is full (GitHub shows 1 MiB); the other reports have it";
  if (stream.good() && !error) return "";
  return "the job summary " + file +
         " cannot be written: " + (error ? error.message() : std::string(std::strerror(errno))) +
         " (the verdict is the same without it); see GITHUB_STEP_SUMMARY";
}

void write_job_summary(const std::string& title, const std::vector<SummaryRow>& rows) {
  const std::string problem = append_job_summary(title, rows);
  if (!problem.empty()) std::fprintf(stderr, "zeroproof: %s\n", sentence(problem).c_str());
}

void write_github(const RunReport& report, bool strict, const SourcePlace& place) {
  std::fputs(to_github(report, strict, place).c_str(), stdout);
  write_job_summary("zeroproof: " + status_counts(report.results), summary_rows(report, strict));
}

}  // namespace zeroproof::verification
