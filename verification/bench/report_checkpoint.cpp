#include <fmt/format.h>

#include "verification/bench/report.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr double goal_of_raw = 0.9;

std::string spread_text(const std::vector<double>& values, int digits) {
  const Spread spread = spread_of(values);
  return fmt::format("{:.{}f} [{:.{}f}-{:.{}f}]", spread.median, digits, spread.least, digits, spread.most,
                     digits);
}

std::vector<double> speeds(const SaveResult& result, const std::vector<double>& seconds) {
  std::vector<double> values;
  for (const double one : seconds) values.push_back(static_cast<double>(result.num_bytes) / one / 1e9);
  return values;
}

std::string milliseconds(const std::vector<double>& seconds) {
  std::vector<double> values;
  for (const double one : seconds) values.push_back(1e3 * one);
  return spread_text(values, 0);
}

}  // namespace

std::string checkpoint_tables(const Report& report) {
  const SaveResult& first = report.saves.front();
  std::string text = fmt::format(
      "checkpoints of {} bytes ({} parameters: master and two moments)\nin {}; {} rounds, median "
      "[least-most]\n\n",
      first.num_bytes, first.what.numel, report.options.checkpoint, first.save.size());
  text += fmt::format("{:>5}  {:<10} {:<12} {:<12} {:<18} {:<18} {}\n", "ranks", "straight", "huge pages",
                      "save, GB/s", "save / straight", "save / huge pages", "goal");
  for (const SaveResult& one : report.saves) {
    const bool met = median_of(one.raw_to_save()) >= goal_of_raw;
    text += fmt::format("{:>5}  {:<10.2f} {:<12.2f} {:<12.2f} {:<18} {:<18} >= {:.1f} {}\n", one.what.ranks,
                        median_of(speeds(one, one.raw)), median_of(speeds(one, one.best)),
                        median_of(speeds(one, one.save)), spread_text(one.raw_to_save(), 2),
                        spread_text(one.best_to_save(), 2), goal_of_raw, met ? "met" : "missed");
  }
  text += fmt::format(
      "\n{} steps of the optimizer alone, and with an asynchronous save among them\n{:>5}  {:<22} "
      "{:<22} {:<20} {}\n",
      SaveResult::steps, "ranks", "steps, ms", "with a save, ms", "ratio", "copy, ms");
  for (const SaveResult& one : report.saves) {
    text +=
        fmt::format("{:>5}  {:<22} {:<22} {:<20} {}\n", one.what.ranks, milliseconds(one.alone),
                    milliseconds(one.beside), spread_text(one.beside_to_alone(), 2), milliseconds(one.copy));
  }
  return text + '\n';
}

}  // namespace zeroproof::verification::bench
