#include "verification/report/skip_lines.hpp"

#include <algorithm>

#include "verification/compare/compare.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t line_width = 98;

std::string counted(std::size_t count) { return grouped(static_cast<std::int64_t>(count)); }

}  // namespace

std::string describe(const SkippedStep& skip, std::size_t width) {
  std::string line = "step " + std::to_string(skip.step) + " skipped: ";
  const std::vector<NonfiniteTensor>& tensors = skip.nonfinite;
  if (tensors.empty()) {
    return line + "all tensors are finite until they are unscaled, the largest magnitude is " +
           show_bits(DType::fp32, skip.amax);
  }
  line += counted(tensors.size()) + " of " + grouped(skip.num_tensors) +
          (tensors.size() == 1 ? " tensors is not finite:" : " tensors are not finite:");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const NonfiniteTensor& tensor = tensors[i];
    const std::string more =
        i + 1 < tensors.size() ? " and " + counted(tensors.size() - i - 1) + " more" : "";
    const std::string part = std::string(i > 0 ? ", " : " ") + tensor.name + " " +
                             grouped(static_cast<std::int64_t>(tensor.stats.num_nonfinite)) +
                             " of " + grouped(tensor.numel);
    if (i > 0 && line.size() + part.size() + more.size() > width) {
      return line + " and " + counted(tensors.size() - i) + " more";
    }
    line += part;
  }
  return line;
}

std::string skip_lines(const std::vector<const Result*>& cases, std::size_t most) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& text) {
    const std::string line = "  " + text + "\n";
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  };
  for (const Result* result : cases) {
    const TrainingRun& run = *result->training;
    for (const SkippedStep& skip : run.skips) add(describe(skip, line_width - 2));
    if (run.ended) {
      add("step " + std::to_string(run.steps) +
          " ended the run: a gradient is not finite, and on_nonfinite is error");
    }
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i) out += lines[i];
  if (lines.size() > most) {
    out += "  ... and " + counted(lines.size() - most) +
           " more skipped steps; --rows and the JSON report have them all\n";
  }
  return out;
}

}  // namespace zeroproof::verification
