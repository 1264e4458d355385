#include <fmt/format.h>

#include "verification/bench/report.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Five columns, also of a ratio that only a toy size has.
std::string ratio(double value) { return fmt::format(" {:>5.{}f}", value, value < 99.995 ? 2 : 0); }

std::string triple(const std::vector<double>& ratios) {
  const Spread spread = spread_of(ratios);
  return ratio(spread.least) + ratio(spread.median) + ratio(spread.most);
}

std::string product_line(const ProductResult& one) {
  const ProductCase& what = one.what;
  const std::vector<double> faults(one.step.page_faults.begin(), one.step.page_faults.end());
  return fmt::format("{:>4} {:>7} {:>2} {} {:>7.2f} {:>7.2f}{}{}{} {:>7.0f}\n", what.micro_batches,
                     what.tensors, what.stage, name(what.grad_dtype), 1e3 * one.step.best(),
                     1e3 * one.step.median(), triple(one.step_to_twins()), triple(one.step_to_limit()),
                     triple(one.reduce_to_addition()), median_of(faults));
}

std::string axis_table(const SweepAxis& axis) {
  std::string text = fmt::format("{}: {}\n", axis.name, axis.fixed);
  text += fmt::format("  {:>13} {:>11} {:>11} {:>9}\n", axis.name, "ms", "line", "residual");
  for (std::size_t i = 0; i < axis.points.size(); ++i) {
    const SweepPoint& point = axis.points[i];
    text += fmt::format("  {:>13.0f} {:>11.3f} {:>11.3f} {:>+8.1f} %\n", point.x, 1e3 * point.settled,
                        1e3 * axis.fit.at(point.x), 100 * axis.residuals[i]);
  }
  return text + fmt::format("  line {:.3f} ms + {:.4g} ns each; worst residual {:.1f} %\n\n",
                            1e3 * axis.fit.intercept, 1e9 * axis.fit.slope, 100 * axis.worst_residual());
}

}  // namespace

std::string product_table(const Report& report) {
  std::string text = fmt::format(
      "product: steps through make_distributed_optimizer, fused, one rank; {} parameters; {} rounds\n",
      report.options.product_numel(), report.options.product_rounds());
  text += "AdamW, bf16 parameters, norm clipped, finite check; ratios within rounds: least, median, most\n\n";
  text += fmt::format("{:>4} {:>7} {:>2} {:>4} {:>15} {:>17} {:>17} {:>17} {:>7}\n", "", "", "", "",
                      "step, ms", "step / its twins", "step / its bytes", "reduce per leaf", "page");
  text += fmt::format("{:>4} {:>7} {:>2} {:>4} {:>7} {:>7} {:>17} {:>17} {:>17} {:>7}\n", "M", "tensors",
                      "st", "grad", "best", "median", "", "moved", "/ one addition", "faults");
  for (const ProductResult& one : report.product) text += product_line(one);
  return text;
}

std::string sweep_tables(const Report& report) {
  std::string text = fmt::format(
      "sweep: the product's step, fused, stage 0, fp32 gradients; {} passes of 5 steps\n"
      "ms: median of step / a pass over memory beside it, at the usual speed of that pass\n\n",
      report.options.sweep_passes());
  for (const SweepAxis& axis : report.sweep.axes) text += axis_table(axis);
  return text;
}

}  // namespace zeroproof::verification::bench
