#include "verification/report/loss_chart.hpp"

#include <algorithm>
#include <cmath>

#include "verification/cases/recipes.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

constexpr int height = 5;
constexpr std::size_t most_columns = 32;
constexpr int chart_width = 50;

/// Mean loss of each column.
std::vector<double> columns_of(const TrainingTrace& trace) {
  const std::size_t steps = trace.steps.size();
  const std::size_t count = std::min(steps, most_columns);
  std::vector<double> columns;
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t begin = c * steps / count;
    const std::size_t end = (c + 1) * steps / count;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += trace.steps[i].loss;
    columns.push_back(sum / static_cast<double>(end - begin));
  }
  return columns;
}

bool has_losses(const TrainingTrace& trace) {
  return !trace.steps.empty() && std::ranges::all_of(trace.steps, [](const TrainingStep& step) {
    return std::isfinite(step.loss);
  });
}

std::vector<std::string> chart_of(const TrainingTrace& trace) {
  const std::vector<double> columns = columns_of(trace);
  // A round number of tenths that no column exceeds.
  const double top = std::max(0.1, std::ceil(*std::ranges::max_element(columns) * 10) / 10);
  const std::string title =
      fmt::format("{} {}: loss {:.4f} -> {:.4f}", shown_recipe(trace.recipe), name(trace.dtype),
                  trace.steps.front().loss, trace.steps.back().loss);
  const bool fits =
      trace.workload.size() + title.size() + 4 <= static_cast<std::size_t>(chart_width);
  std::vector<std::string> lines = {"  " + (fits ? trace.workload + " " : "") + title};
  for (int row = height; row >= 1; --row) {
    std::string line = row == height ? fmt::format("{:>6.1f} |", top) : "       |";
    for (const double loss : columns) line += loss * height >= top * (row - 0.5) ? '#' : ' ';
    lines.push_back(line);
  }
  lines.push_back("     0 +" + std::string(columns.size(), '-'));
  const auto skipped =
      std::ranges::count_if(trace.steps, [](const TrainingStep& step) { return step.skipped; });
  lines.push_back(fmt::format("        steps {} to {}{}", trace.first_step,
                              trace.first_step + static_cast<std::int64_t>(trace.steps.size()) - 1,
                              skipped > 0 ? fmt::format(", {} skipped (overflow)", skipped) : ""));
  return lines;
}

std::string without_end(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string loss_charts(const std::vector<TrainingTrace>& traces) {
  std::vector<std::vector<std::string>> charts;
  for (const TrainingTrace& trace : traces)
    if (has_losses(trace)) charts.push_back(chart_of(trace));
  std::string out;
  for (std::size_t i = 0; i < charts.size(); i += 2) {
    for (std::size_t line = 0; line < charts[i].size(); ++line) {
      std::string both = fmt::format("{:<{}}", charts[i][line], chart_width);
      if (i + 1 < charts.size()) both += charts[i + 1][line];
      out += without_end(both) + "\n";
    }
  }
  return out;
}

}  // namespace zeroproof::verification
