// The report as one page: no script, nothing from elsewhere, legible on a phone. Well-formed as XML too.

#include <algorithm>

#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/text_lines.hpp"
#include "verification/report/failure_blocks.hpp"
#include "verification/report/format.hpp"
#include "verification/report/html_parts.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/report_failures.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t most_articles = 50;

constexpr const char* page_style = R"(
:root{color-scheme:light dark;--good:#1a7f37;--bad:#c62828;--warn:#9a6700;--line:#8886}
body{font:16px/1.45 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
.verdict{padding:.6rem 1rem;border-left:.5rem solid;margin:1rem 0;font-size:1.1rem}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.2rem .6rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td.n{text-align:right;font-variant-numeric:tabular-nums}
p{overflow-wrap:anywhere}
.details th{vertical-align:top;font-weight:600}.details td,.details th{border:0;padding:.05rem .8rem .05rem 0}
.details td{white-space:normal;overflow-wrap:anywhere;font-family:monospace;font-size:.85rem}
article{border-left:.3rem solid var(--bad);padding:.1rem 0 .1rem 1rem;margin:1rem 0}
article h3{font-size:1rem;margin:.2rem 0;overflow-wrap:anywhere}
.hash{font-family:monospace}figure{margin:.5rem 1.5rem .5rem 0;display:inline-block}
figcaption{font-size:.85rem}svg{max-width:100%;height:auto}
.pairs th,.pairs td{padding:.1rem .3rem;font-size:.75rem}
.pairs th:first-child,.grid th:first-child{position:sticky;left:0;background:Canvas}
.ulps td{padding:.1rem .5rem}.ulps svg{width:7rem;max-width:none;height:.8rem}
)";

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
  const char* text = code == 0   ? "Proved: everything that was compared is equal."
                     : code == 4 ? "Nothing was proved: no case passed."
                                 : "Not proved: see the first differences below.";
  return fmt::format("<div class=\"verdict {}\"><strong>{}</strong><br/>{} in {:.1f} s, exit code {}</div>\n",
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

/// The lines of details_of as rows: two blanks, a label of ten columns, and its text, which may go on in the next line.
std::string details(const std::string& text) {
  constexpr std::size_t label_end = 12;
  std::string out = "<table class=\"details\">";
  bool open = false;
  for (const std::string& line : lines_of(text)) {
    const std::string label = line.substr(0, std::min(label_end, line.size()));
    const std::size_t begin = label.find_first_not_of(' ');
    const std::string value = escaped(line.size() > label_end ? line.substr(label_end) : "", Within::element);
    if (begin == std::string::npos && open) {
      out += "<br/>" + value;
      continue;
    }
    const std::string word =
        begin == std::string::npos ? "" : label.substr(begin, label.find_last_not_of(' ') - begin + 1);
    out += std::string(open ? "</td></tr>" : "") + "<tr><th>" + escaped(word) + "</th><td>" + value;
    open = true;
  }
  return out + (open ? "</td></tr>" : "") + "</table>\n";
}

std::string failures(const RunReport& report) {
  const std::vector<FailureBlock> blocks = failure_blocks(report.results);
  if (blocks.empty()) return "";
  std::string out = "<h2>First differences</h2>\n";
  for (std::size_t i = 0; i < std::min(blocks.size(), most_articles); ++i) {
    const Result& result = *blocks[i].front();
    out += fmt::format("<article><h3><span class=\"bad\">{}</span> {}</h3>\n{}{}</article>\n",
                       name(result.status), escaped(result.id, Within::element),
                       details(details_of(result, repeat_lines(blocks[i]))), ulp_bars(result.ulps));
  }
  if (blocks.size() > most_articles) {
    out += fmt::format("<p>{} more causes are in the JSON report.</p>\n", blocks.size() - most_articles);
  }
  return out;
}

std::string not_judged(const RunReport& report) {
  std::vector<std::pair<std::string, std::int64_t>> reasons;
  for (const Result& result : report.results) {
    const bool told = result.status == Status::pass && !result.reason.empty();
    if (!told && result.status != Status::skipped && result.status != Status::mistrusted) continue;
    const std::string text = std::string(name(result.status)) + ": " + result.reason;
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == text; });
    known == reasons.end() ? void(reasons.emplace_back(text, 1)) : void(++known->second);
  }
  if (reasons.empty()) return "";
  std::string out = "<h2>Not judged, or not trusted</h2>\n<ul>\n";
  for (const auto& [text, count] : reasons) {
    out += fmt::format("<li class=\"warn\">{} x {}</li>\n", grouped(count), escaped(text, Within::element));
  }
  return out + "</ul>\n";
}

std::string machine(const RunReport& report) {
  std::string out = "<h2>Machine and build</h2>\n<div class=\"wide\"><table>\n";
  for (const Capability& capability : report.capabilities) {
    out += fmt::format("<tr><th>{}</th><td class=\"{}\">{}</td><td>{}</td></tr>\n", escaped(capability.name),
                       capability.available ? "good" : "warn", capability.available ? "yes" : "no",
                       escaped(capability.detail));
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string to_html(const RunReport& report, bool strict) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>zeroproof report</title>\n<style>" +
      std::string(page_style) + "</style></head>\n<body>\n";
  out += fmt::format("<h1>zeroproof {}, numeric contract {}</h1>\n", ZP_VERSION, contract_version);
  if (report.input.bytes > 0) {
    out += fmt::format("<p>{}: {} ({} bytes)</p>\n", escaped(report.input.kind), escaped(report.input.path),
                       grouped(report.input.bytes));
  }
  out += verdict(report, strict);
  if (!report.held_to.empty())
    out += "<p>Operations are held to " + escaped(report.held_to) + ", not to the contract's bits.</p>\n";
  for (const std::string& note : report.notes) out += "<p>Note: " + escaped(note) + ".</p>\n";
  if (report.self_test) out += self_test(*report.self_test);
  out += failures(report) + trajectories(report) + pairs_of_settings(report) + coverage(report) +
         not_judged(report) + machine(report);
  return out + "</body></html>\n";
}

}  // namespace zeroproof::verification
