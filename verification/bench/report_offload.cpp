#include <fmt/format.h>

#include "verification/bench/report.hpp"

namespace zeroproof::verification::bench {
namespace {

std::string milliseconds(const std::vector<double>& seconds) {
  if (seconds.empty()) return "-";
  const Spread spread = spread_of(seconds);
  return fmt::format("{:.1f} [{:.1f}-{:.1f}]", 1e3 * spread.median, 1e3 * spread.least, 1e3 * spread.most);
}

std::string speed(const OffloadResult& one) {
  return one.moved.empty() ? "-" : fmt::format("{:.2f}", one.moved_bytes() / median_of(one.moved) / 1e9);
}

}  // namespace

std::string offload_table(const Report& report) {
  const OffloadResult& first = report.offload.front();
  std::string text = fmt::format(
      "state elsewhere: steps of {} parameters, one rank, chunks of {}, files in\n{}; {} rounds, ms: median "
      "[least-most]\nfloor: the step that offloads nothing, or the file's bytes moved alone, whichever takes "
      "longer\n\n",
      first.what.numel, first.what.offload.chunk_numel, report.options.offload, first.step.size());
  text += fmt::format("{:>8} {:<5} {:<18} {:<18} {:<18} {:>5} {}\n", "fraction", "place", "nothing elsewhere",
                      "bytes moved alone", "step", "GB/s", "step / floor");
  for (const OffloadResult& one : report.offload) {
    const Spread ratio = spread_of(one.step_to_floor());
    text += fmt::format("{:>8} {:<5} {:<18} {:<18} {:<18} {:>5} {:.2f} [{:.2f}-{:.2f}]\n",
                        one.what.offload.fraction, name(one.what.offload.place), milliseconds(one.plain),
                        milliseconds(one.moved), milliseconds(one.step), speed(one), ratio.median,
                        ratio.least, ratio.most);
  }
  return text + '\n';
}

}  // namespace zeroproof::verification::bench
