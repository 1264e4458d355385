#include "verification/report/html_parts.hpp"

#include <algorithm>
#include <cmath>

#include "verification/report/format.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr double drawing_width = 360;
constexpr double drawing_height = 110;

/// One bar for every step from 0, grey where the step was skipped.
std::string loss_drawing(const TrainingTrace& trace) {
  double top = 0;
  for (const TrainingStep& step : trace.steps) top = std::max(top, std::isfinite(step.loss) ? step.loss : 0);
  if (top <= 0) return "";
  std::string out = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=\"img\">",
                                drawing_width, drawing_height, drawing_width);
  const double width = drawing_width / static_cast<double>(trace.steps.size());
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const TrainingStep& step = trace.steps[i];
    if (!std::isfinite(step.loss)) continue;
    const double height = drawing_height * step.loss / top;
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"><title>step {}: "
        "{:.4f}{}</title></rect>",
        width * static_cast<double>(i), drawing_height - height, std::max(0.5, 0.85 * width), height,
        step.skipped ? "#999" : "#3b7dd8", i + 1, step.loss, step.skipped ? ", skipped" : "");
  }
  return out + "</svg>";
}

/// What was compared where, in the order of first appearance.
struct Grid {
  std::vector<std::string> rows, columns;
  struct Cell {
    std::size_t row, column;
    std::int64_t passed = 0, failed = 0, other = 0;
  };
  std::vector<Cell> cells;

  Cell& cell(const std::string& row, const std::string& column) {
    const auto place = [](std::vector<std::string>& names, const std::string& name) {
      const auto known = std::find(names.begin(), names.end(), name);
      if (known != names.end()) return static_cast<std::size_t>(known - names.begin());
      names.push_back(name);
      return names.size() - 1;
    };
    const std::size_t r = place(rows, row);
    const std::size_t c = place(columns, column);
    for (Cell& one : cells) {
      if (one.row == r && one.column == c) return one;
    }
    return cells.emplace_back(Cell{r, c});
  }
};

std::string cell_html(const Grid& grid, std::size_t row, std::size_t column) {
  for (const Grid::Cell& cell : grid.cells) {
    if (cell.row != row || cell.column != column) continue;
    if (cell.failed > 0) {
      return fmt::format("<td class=\"n bad\">{} of {} fail</td>", cell.failed,
                         cell.passed + cell.failed + cell.other);
    }
    if (cell.passed == 0) return fmt::format("<td class=\"n warn\">{} not judged</td>", cell.other);
    return fmt::format("<td class=\"n good\">{} equal</td>", cell.passed);
  }
  return "<td class=\"n\">-</td>";
}

void count(Grid::Cell& cell, Status status) {
  cell.passed += status == Status::pass ? 1 : 0;
  cell.failed += failed(status) ? 1 : 0;
  cell.other += status == Status::pass || failed(status) ? 0 : 1;
}

void add_grid(std::string& out, const std::string& title, const Grid& grid) {
  out += "<h3>" + escaped(title) + "</h3>\n<div class=\"wide\"><table class=\"grid\">\n<tr><th></th>";
  for (const std::string& column : grid.columns) out += "<th>" + escaped(column) + "</th>";
  out += "</tr>\n";
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    out += "<tr><th>" + escaped(grid.rows[r]) + "</th>";
    for (std::size_t c = 0; c < grid.columns.size(); ++c) out += cell_html(grid, r, c);
    out += "</tr>\n";
  }
  out += "</table></div>\n";
}

}  // namespace

std::string ulp_bars(const UlpHistogram& ulps) {
  if (ulps.sign_or_nan == 0 && ulps.largest == 0) return "";
  struct Row {
    const char* distance;
    const char* meaning;
    std::int64_t count;
  };
  const Row rows[] = {{"0", "equal", ulps.counts[0]},
                      {"1", "one rounding", ulps.counts[1]},
                      {"2", "two roundings", ulps.counts[2]},
                      {"3 to 15", "more than order explains, or cancellation", ulps.counts[3]},
                      {"16 and more", "another value", ulps.counts[4]},
                      {"sign or NaN", "no distance", ulps.sign_or_nan}};
  std::int64_t most = 1;
  for (const Row& row : rows) most = std::max(most, row.count);
  std::string out =
      "<div class=\"wide\"><table class=\"ulps\"><tr><th>ulps apart</th><th>elements</th>"
      "<th></th><th></th></tr>\n";
  for (const Row& row : rows) {
    out += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td><svg viewBox=\"0 0 100 8\" "
        "preserveAspectRatio=\"none\"><rect width=\"{:.2f}\" height=\"8\" fill=\"#3b7dd8\"/></svg></td>"
        "<td>{}</td></tr>\n",
        row.distance, grouped(row.count), 100 * static_cast<double>(row.count) / static_cast<double>(most),
        row.meaning);
  }
  return out + "</table></div>\n";
}

std::string trajectories(const RunReport& report) {
  if (report.traces.empty()) return "";
  std::string out = "<h2>Trainings</h2>\n";
  for (const TrainingTrace& trace : report.traces) {
    std::int64_t cases = 0;
    std::int64_t equal = 0;
    for (const Result& result : report.results) {
      if (!result.training) continue;
      const CaseSpec spec = training_spec(result);
      if (spec.workload != trace.workload || spec.recipe != trace.recipe || spec.dtype != trace.dtype)
        continue;
      if (spec.place.grad_sum != trace.grad_sum) continue;
      ++cases;
      equal += result.status == Status::pass && result.training->candidate_hash == trace.hash ? 1 : 0;
    }
    out += fmt::format(
        "<figure>{}<figcaption>{} {} {}, {} steps, loss from 0<br/><span class=\"hash\">{}</span><br/>"
        "<span class=\"{}\">{} of {} cases have it</span></figcaption></figure>\n",
        loss_drawing(trace), escaped(trace.workload), escaped(trace.recipe), name(trace.dtype),
        trace.steps.size(), trace.hash ? to_hex(*trace.hash) : "no hash", equal == cases ? "good" : "bad",
        equal, cases);
  }
  return out;
}

std::string pairs_of_settings(const RunReport& report) {
  if (report.axes.empty()) return "";
  const auto cell = [](const VisitedAxis::Share& share, const std::string& title) {
    if (share.possible == 0) return std::string("<td></td>");
    return fmt::format("<td class=\"n {}\" title=\"{}\">{}/{}</td>",
                       share.visited == share.possible ? "good" : "warn", escaped(title), share.visited,
                       share.possible);
  };
  VisitedAxis::Share values, pairs;
  std::string rows;
  for (const VisitedAxis& axis : report.axes) {
    rows += "<tr><th>" + escaped(axis.name) + "</th>" + cell(axis.values, "values of " + axis.name);
    values.visited += axis.values.visited;
    values.possible += axis.values.possible;
    for (std::size_t other = 0; other < axis.pairs.size(); ++other) {
      rows += cell(axis.pairs[other], axis.name + " with " + report.axes[other].name);
      pairs.visited += axis.pairs[other].visited;
      pairs.possible += axis.pairs[other].possible;
    }
    rows += "</tr>\n";
  }
  std::string head;
  for (const VisitedAxis& axis : report.axes) head += "<th>" + escaped(axis.name) + "</th>";
  return fmt::format(
      "<h2>Pairs of settings</h2>\n<p>Passing cases visited {} of {} values and {} of {} pairs of "
      "values.</p>\n<div class=\"wide\"><table "
      "class=\"pairs\">\n<tr><th>setting</th><th>values</th>{}</tr>\n{}"
      "</table></div>\n",
      values.visited, values.possible, pairs.visited, pairs.possible, head, rows);
}

std::string coverage(const RunReport& report) {
  std::vector<std::pair<std::string, Grid>> grids;
  const auto grid_of = [&](const std::string& title) -> Grid& {
    for (auto& [known, grid] : grids) {
      if (known == title) return grid;
    }
    return grids.emplace_back(title, Grid{}).second;
  };
  for (const Result& result : report.results) {
    if (result.training) {
      const CaseSpec spec = training_spec(result);
      const std::string row = std::string(name(spec.twin)) + " " + std::string(name(spec.mode)) + " " +
                              std::string(name(spec.dtype)) + spec.place.id();
      Grid& grid = grid_of(spec.workload + " " + spec.recipe);
      count(grid.cell(row, "stage " + std::to_string(spec.stage) + ", " + spec.world.id()), result.status);
    } else {
      count(grid_of(result.suite).cell(result.group, result.side.empty() ? "cases" : result.side),
            result.status);
    }
  }
  if (grids.empty()) return "";
  std::string out = "<h2>What was visited</h2>\n";
  for (const auto& [title, grid] : grids) add_grid(out, title, grid);
  return out;
}

}  // namespace zeroproof::verification
