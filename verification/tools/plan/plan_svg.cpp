// The picture: bars of the classes, one per stage.

#include <algorithm>
#include <array>

#include "verification/report/class_fills.hpp"
#include "verification/report/format.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/plan/report.hpp"

namespace zeroproof::verification {
namespace {

constexpr double width = 760;
constexpr double height = 440;
constexpr double left = 96;
constexpr double right = 190;  // for the legend
constexpr double top = 64;
constexpr double bottom = 56;
constexpr double plot_width = width - left - right;
constexpr double plot_height = height - top - bottom;

/// Readable on white and on black, like the colours of classes.
constexpr const char* ink = "#7a7f87";

std::string words(double x, double y, const char* anchor, int size, const std::string& content,
                  bool bold = false) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\"{}>{}</text>\n", x, y,
      anchor, size, bold ? " font-weight=\"bold\"" : "", escaped(content, Within::element));
}

/// 1, 2 or 5 times a power of ten, so that four to nine steps reach `most`.
double axis_step(double most) {
  double power = 1;
  while (power * 10 <= most) power *= 10;
  for (const double step : {power / 5, power / 2, power}) {
    if (most / step <= 6) return step;
  }
  return 2 * power;
}

double height_of(double value, double most) { return top + plot_height * (1 - value / most); }

std::string axis(double most) {
  std::string out;
  const double step = axis_step(most);
  for (double value = 0; value <= most; value += step) {
    const double y = height_of(value, most);
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-opacity=\"0.35\"/>\n",
        left, y, left + plot_width, y, ink);
    out += words(left - 8, y + 4, "end", 12, short_bytes(value));
  }
  return out;
}

/// Base line of the label of a bar that ends at y: no line of the axis goes through it.
double label_at(double y, double most) {
  constexpr double text_height = 12;
  const double step = axis_step(most);
  double base = y - 6;
  for (double value = 0; value <= most; value += step) {
    const double line = height_of(value, most);
    if (line < base + 2 && line > base - text_height) base = line - 4;
  }
  return base;
}

/// Dashes on a light band, visible on every fill.
std::string paper_line(double x1, double x2, double y) {
  const auto line = [&](double inset, const char* colour, int stroke, const char* more) {
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{}\"{}/>\n",
        x1 + inset, y, x2 - inset, y, colour, stroke, more);
  };
  return line(0, "#ffffff", 4, "") + line(1, "#22262b", 2, " stroke-dasharray=\"5 3\"");
}

std::string bar(const StagePlan& stage, double center, double bar_width, double most) {
  std::string out;
  double y = top + plot_height;
  for (std::size_t c = 0; c < stage.largest.at_peak.size(); ++c) {
    const auto bytes = static_cast<double>(stage.largest.at_peak[c]);
    const double bar_height = plot_height * bytes / most;
    y -= bar_height;
    if (bytes == 0) continue;
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill=\"{}\"><title>stage {}, {}: "
        "{} "
        "bytes</title></rect>\n",
        center - bar_width / 2, y, bar_width, bar_height, class_fills[c], stage.stage,
        name(static_cast<MemoryClass>(c)), stage.largest.at_peak[c]);
  }
  out += paper_line(center - bar_width / 2 - 8, center + bar_width / 2 + 8,
                    height_of(stage.papers.total(), most));
  const auto peak = static_cast<double>(stage.largest.memory.total_peak);
  out += words(center, label_at(y, most), "middle", 12, short_bytes(peak));
  return out + words(center, top + plot_height + 20, "middle", 13,
                     "stage " + std::to_string(stage.stage));
}

std::string legend() {
  std::string out;
  double y = top + 8;
  for (int c = num_memory_classes - 1; c >= 0; --c) {
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                       width - right + 24, y - 10, class_fills[c]);
    out +=
        words(width - right + 42, y, "start", 13, std::string(name(static_cast<MemoryClass>(c))));
    y += 20;
  }
  out += paper_line(width - right + 20, width - right + 40, y - 4);
  return out + words(width - right + 46, y, "start", 13, "papers: 16 B per P");
}

}  // namespace

std::string plan_svg(const Plan& plan) {
  double most = 1;
  for (const StagePlan& stage : plan.stages) {
    most = std::max(
        {most, static_cast<double>(stage.largest.memory.total_peak), stage.papers.total()});
  }
  most *= 1.05;
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "viewBox=\"0 0 "
      "{:.0f} {:.0f}\" "
      "width=\"{:.0f}\" height=\"{:.0f}\" font-family=\"sans-serif\" fill=\"{}\" role=\"img\">\n",
      width, height, width, height, ink);
  const std::string source =
      plan.model.size() <= 48 ? plan.model : "..." + plan.model.substr(plan.model.size() - 45);
  out +=
      "<title>" + escaped("Peak memory of one rank: " + plan.model, Within::element) + "</title>\n";
  out += words(left, 24, "start", 15, "Peak memory of one rank: " + source, true);
  out += words(
      left, 44, "start", 12,
      fmt::format("{} parameters, grid {}, M = {}; computed, largest rank", grouped(plan.numel),
                  plan.settings.grid.id(), grouped(plan.settings.micro_batches)));
  out += axis(most);
  const double slot =
      plot_width / static_cast<double>(std::max<std::size_t>(1, plan.stages.size()));
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    out += bar(plan.stages[i], left + slot * (static_cast<double>(i) + 0.5),
               std::min(72.0, slot * 0.6), most);
  }
  return out + legend() + "</svg>\n";
}

}  // namespace zeroproof::verification
