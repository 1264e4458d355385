#include "verification/training/bytes_table.hpp"

#include <map>
#include <utility>

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

Planned operator+(const Planned& a, const Planned& b) {
  return {a.measured + b.measured, a.predicted + b.predicted};
}

bool as_predicted(const Planned& planned) { return planned.measured == planned.predicted; }

std::string verdict(bool good, const Paint& paint) {
  return good ? paint("32", "as predicted") : paint("31", "DIFFERS");
}

/// A row per class of memory of a rank.
void add_memory(std::string& out, const std::vector<RankBytes>& ranks, const Paint& paint) {
  out += fmt::format("  {:<5} {:<12} {:>15} {:>15}\n", "rank", "peak of", "bytes", "predicted");
  const auto row = [&](const std::string& rank, const std::string& what, const Planned& bytes) {
    out += fmt::format("  {:<5} {:<12} {:>15} {:>15}  {}\n", rank, what, grouped(bytes.measured),
                       grouped(bytes.predicted), verdict(as_predicted(bytes), paint));
  };
  for (const RankBytes& rank : ranks) {
    std::string number = std::to_string(rank.rank);
    for (const RankBytes::Class& of : rank.memory) {
      if (of.bytes.measured == 0 && of.bytes.predicted == 0) continue;
      row(std::exchange(number, ""), of.name, of.bytes);
    }
    row(number, "at once", rank.peak);
  }
}

/// A row per collective, over all ranks.
void add_sent(std::string& out, const std::vector<RankBytes>& ranks, const Paint& paint) {
  std::map<std::pair<std::string, std::string>, RankBytes::Wire> sums;
  for (const RankBytes& rank : ranks) {
    for (const RankBytes::Wire& wire : rank.sent) {
      RankBytes::Wire& sum = sums[{wire.group, wire.collective}];
      sum.calls = sum.calls + wire.calls;
      sum.messages = sum.messages + wire.messages;
      sum.bytes = sum.bytes + wire.bytes;
    }
  }
  if (sums.empty()) {
    out += "  nothing is sent\n";
    return;
  }
  out += fmt::format("  {:<9} {:<14} {:>8} {:>9} {:>13} {:>13}\n", "over", "all ranks sent",
                     "calls", "messages", "bytes", "predicted");
  for (const auto& [key, sum] : sums) {
    const bool good =
        as_predicted(sum.calls) && as_predicted(sum.messages) && as_predicted(sum.bytes);
    out += fmt::format("  {:<9} {:<14} {:>8} {:>9} {:>13} {:>13}  {}\n", key.first, key.second,
                       grouped(sum.calls.measured), grouped(sum.messages.measured),
                       grouped(sum.bytes.measured), grouped(sum.bytes.predicted),
                       verdict(good, paint));
  }
}

}  // namespace

std::string bytes_table(const RunReport& report, bool colour) {
  const Paint paint{colour};
  std::string out;
  for (const Result& result : report.results) {
    if (!result.training || result.training->bytes.empty()) continue;
    out += fmt::format("\nbytes of {} in {} steps\n", result.id, result.training->steps);
    add_memory(out, result.training->bytes, paint);
    add_sent(out, result.training->bytes, paint);
  }
  return out;
}

}  // namespace zeroproof::verification
