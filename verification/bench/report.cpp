#include "verification/bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "common/base/error.hpp"
#include "verification/bench/machine.hpp"

namespace zeroproof::verification::bench {
namespace {

const std::vector<Column> row_columns = {{"row", "name"},
                                         {"B/elem", "bytes_per_element"},
                                         {"best, ms", "best_s", 1e3},
                                         {"median", "samples_s", 1e3},
                                         {"GB/s", "best_gb_per_s"},
                                         {"limit", "limit_gb_per_s"},
                                         {"GFLOP/s", "best_gflop_per_s"},
                                         {"/ limit", "ratio_best"},
                                         {"per round", "ratio_per_round"},
                                         {"faults", "page_faults"}};

/// About three digits.
std::string number(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::string cell(const Json& entry, const Column& column) {
  if (!entry.contains(column.key)) return "-";
  const Json& value = entry[column.key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  if (value.is_number()) return number(value.get<double>() * column.scale);
  const bool ratios = value.is_object();
  const auto samples = (ratios ? value["per_round"] : value).get<std::vector<double>>();
  if (samples.empty()) return "-";
  std::string text = number(median_of(samples) * column.scale);
  if (ratios || column.spread)
    text += fmt::format(" [{}-{}]", number(std::ranges::min(samples) * column.scale),
                        number(std::ranges::max(samples) * column.scale));
  return text;
}

Json row_value(const std::vector<Row>& rows, const Row& row) {
  Json value = {{"name", row.name},
                {"kind", row.shape.empty() ? "step" : "limit"},
                {"numel", row.numel},
                {"best_s", row.best()},
                {"median_s", median_of(row.seconds)}};
  if (row.num_bytes > 0) {
    value["bytes_per_element"] = row.num_bytes;
    value["best_gb_per_s"] = row.num_bytes * row.numel / row.best() / 1e9;
  }
  if (row.operations > 0) value["best_gflop_per_s"] = row.operations / row.best() / 1e9;
  if (!row.limits.empty()) {
    const Ratio ratio = ratio_to_limit(rows, row);
    for (const std::string& shape : row.limits)
      value["limits"].push_back(best_limit(rows, shape)->name);
    if (row.num_bytes > 0) value["limit_gb_per_s"] = ratio.limit_gbs;
    value["ratio_best"] = ratio.best;
    value["ratio_per_round"] = ratio.per_round;
  }
  value["involuntary_switches"] = row.switches;
  value["page_faults"] = row.page_faults;
  value["samples_s"] = row.seconds;
  return value;
}

}  // namespace

Json ratios_value(const std::vector<double>& ratios) {
  if (ratios.empty()) return {{"min", 0}, {"median", 0}, {"max", 0}, {"per_round", Json::array()}};
  return {{"min", std::ranges::min(ratios)},
          {"median", median_of(ratios)},
          {"max", std::ranges::max(ratios)},
          {"per_round", ratios}};
}

Report::Report(const Options& options) {
  const Machine m = this_machine();
  record_ = {{"schema", "zeroproof-bench/3"},
             {"command", options.command},
             {"machine",
              {{"cpu", m.cpu},
               {"cores", m.cores},
               {"isa", m.isa},
               {"page_bytes", m.page_bytes},
               {"load_average", m.load}}},
             {"rounds", options.rounds}};
  say(fmt::format("{}, {} cores, {}, load {:.1f}; {} rounds", m.cpu, m.cores, m.isa, m.load,
                  options.rounds));
  if (options.threads == 0) return;
  record_["threads"] = options.threads;
  text_.insert(text_.size() - 1, fmt::format(", {} threads", options.threads));
}

std::string Report::table(const Json& entries, const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> lines(entries.size() + 1);
  std::vector<std::size_t> widths;
  std::vector<bool> left;
  for (const Column& column : columns) {
    const auto has = [&](const Json& entry) { return entry.contains(column.key); };
    if (std::none_of(entries.begin(), entries.end(), has)) continue;
    widths.push_back(std::string(column.heading).size());
    left.push_back(std::any_of(entries.begin(), entries.end(),
                               [&](const Json& e) { return has(e) && e[column.key].is_string(); }));
    lines[0].push_back(column.heading);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      lines[i + 1].push_back(cell(entries[i], column));
      widths.back() = std::max(widths.back(), lines[i + 1].back().size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string joined;
    for (std::size_t c = 0; c < line.size(); ++c) {
      joined += left[c] ? fmt::format("{:<{}} ", line[c], widths[c])
                        : fmt::format("{:>{}} ", line[c], widths[c]);
    }
    text += joined.substr(0, joined.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

void Report::add(const char* key, Json entries, const std::vector<Column>& columns) {
  text_ += table(entries, columns) + '\n';
  record_[key] = std::move(entries);
}

void Report::add(const Figure& figure, Json& to, bool judged) {
  Json value = {{"name", figure.name}, {"value", figure.value}};
  if (figure.best > 0) value["best"] = figure.best;
  if (!figure.unit.empty()) value["unit"] = figure.unit;
  std::string text = fmt::format("{:<62} {:>7} {}", figure.name, number(figure.value), figure.unit);
  if (figure.goal > 0 && judged) {
    value[figure.at_least ? "goal_at_least" : "goal_at_most"] = figure.goal;
    value["met"] = figure.met();
    text += fmt::format(" goal {} {:.2f} {}", figure.at_least ? ">=" : "<=", figure.goal,
                        figure.met() ? "met" : "missed");
  }
  to["figures"].push_back(std::move(value));
  say(text.substr(0, text.find_last_not_of(' ') + 1));
}

void Report::count(const std::vector<Row>& rows) {
  for (const Row& row : rows)
    switches_ += row.switches, samples_ += static_cast<long>(row.seconds.size());
}

void Report::add(const Group& group, bool in_groups, bool judged) {
  Json value = Json::object();
  if (!group.title.empty()) say('\n' + group.title);
  if (in_groups) value["title"] = group.title;
  if (!group.missing.empty()) {
    say("not measured: " + group.missing);
    value["not_measured"] = group.missing;
  } else {
    Json shown = Json::array();
    for (const Row& row : group.rows) {
      value["rows"].push_back(row_value(group.rows, row));
      if (row.shape.empty() || best_limit(group.rows, row.shape) == &row)
        shown.push_back(value["rows"].back());
    }
    say('\n' + table(shown, row_columns));
    value["figures"] = Json::array();
    for (const Figure& figure : group.figures) add(figure, value, judged);
  }
  count(group.rows);
  if (in_groups) {
    record_["groups"].push_back(std::move(value));
  } else {
    record_.update(value);
  }
}

bool Report::ok() const { return std::ranges::all_of(checks_, &Check::ok); }

std::string Report::text() const {
  std::string text = text_ + '\n';
  // Checks of one name that passed for several rows are one line.
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    const Check& check = checks_[i];
    if (!check.ok) {
      text += fmt::format("WRONG {}{}{}\n", check.name, check.where.empty() ? "" : ", of ",
                          check.where);
      continue;
    }
    const auto same = [&](const Check& other) { return other.ok && other.name == check.name; };
    const auto here = checks_.begin() + i;
    if (std::any_of(checks_.begin(), here, same)) continue;
    text += fmt::format(
        "same  {}{}\n", check.name,
        check.where.empty() ? "" : fmt::format(" ({})", std::count_if(here, checks_.end(), same)));
  }
  if (busy()) text += fmt::format("\nbusy machine: {} involuntary context switches\n", switches_);
  return text;
}

std::string Report::json() const {
  Json record = record_;
  record["busy"] = busy();
  record["involuntary_switches"] = switches_;
  record["checks"] = Json::array();
  for (const Check& check : checks_) {
    record["checks"].push_back({{"name", check.name}, {"ok", check.ok}});
    if (!check.where.empty()) record["checks"].back()["where"] = check.where;
  }
  return record.dump(2) + "\n";
}

int reported(const Options& options, bool shown,
             const std::function<void(const Options&, Report&)>& measure) {
  std::ofstream file;
  const auto require_written = [&] {
    ZP_CHECK(file.good(), ErrorCode::io, options.json + " could not be written",
             "the record would be lost", "name a file in a folder that exists and is yours");
  };
  const bool writes = shown && !options.json.empty();
  if (writes) {
    file.open(options.json, std::ios::binary);
    require_written();  // before the long part
  }
  Report report(options);
  measure(options, report);
  if (shown) std::fputs(report.text().c_str(), stdout);
  if (writes) {
    file << report.json() << std::flush;
    require_written();
  }
  return report.ok() ? 0 : 1;
}

}  // namespace zeroproof::verification::bench
