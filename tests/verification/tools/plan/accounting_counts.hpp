#pragma once
// Compares counted with predicted figures and describes the differences.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/comm/recording.hpp"
#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"

namespace zeroproof::tests {

using GroupTraffic = std::array<TrafficEntry, num_collectives>;
inline constexpr int num_comm_groups = 3;

/// The counts of one rank in one phase (or in a whole step), by CommGroup.
struct StepCounts {
  std::array<GroupTraffic, num_comm_groups> of{};

  /// "" if both agree; a group of one rank may make calls, but send nothing.
  std::string difference(const StepCounts& predicted) const {
    for (int g = 0; g < num_comm_groups; ++g) {
      for (int c = 0; c < num_collectives; ++c) {
        const auto at = [&](const StepCounts& counts) { return counts.of[g][c]; };
        if (at(*this) == at(predicted)) continue;
        return std::string(name(static_cast<CommGroup>(g))) + " " +
               name(static_cast<Collective>(c)) + ": counted " + text(at(*this)) + ", predicted " +
               text(at(predicted));
      }
    }
    return {};
  }
  static std::string text(const TrafficEntry& e) {
    return std::to_string(e.calls) + " calls, sent " + std::to_string(e.messages_sent) + " / " +
           std::to_string(e.bytes_sent) + ", received " + std::to_string(e.messages_received) +
           " / " + std::to_string(e.bytes_received);
  }
  StepCounts& operator+=(const StepCounts& other) {
    for (std::size_t g = 0; g < of.size(); ++g) {
      for (std::size_t c = 0; c < of[g].size(); ++c) of[g][c] += other.of[g][c];
    }
    return *this;
  }
};

/// The predicted lines of a phase.
inline StepCounts counts_of(const StepTraffic& traffic, Phase phase) {
  StepCounts counts;
  for (const TrafficLine& line : traffic.lines) {
    if (line.phase != phase) continue;
    counts.of[static_cast<std::size_t>(line.group)][static_cast<std::size_t>(line.collective)] +=
        {line.calls, line.messages, line.messages_received, line.sent_bytes, line.received_bytes};
  }
  return counts;
}

inline std::string class_difference(const std::string& what, const BytesByClass& counted,
                                    const BytesByClass& predicted) {
  for (int c = 0; c < num_memory_classes; ++c) {
    const auto at = static_cast<std::size_t>(c);
    if (counted[at] == predicted[at]) continue;
    return what + " of " + std::string(name(static_cast<MemoryClass>(c))) + ": counted " +
           std::to_string(counted[at]) + ", predicted " + std::to_string(predicted[at]);
  }
  return {};
}

/// "" if they agree to the byte. two_streams: the peak of the sum may be between the largest peak
/// of a class and the sum of all (cuda/optimizer/layered/layered_pass.hpp).
inline std::string memory_difference(const MemoryUse& counted, const MemoryUse& predicted,
                                     bool two_streams) {
  std::string problem = class_difference("peak", counted.peak, predicted.peak);
  if (problem.empty())
    problem = class_difference("bytes after the step", counted.now, predicted.now);
  if (!problem.empty()) return problem;
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (const std::int64_t peak : counted.peak) {
    sum += peak;
    largest = std::max(largest, peak);
  }
  const std::int64_t total = counted.total_peak;
  if (two_streams ? total >= largest && total <= sum : total == predicted.total_peak) return {};
  return "peak of the sum: counted " + std::to_string(total) + ", predicted " +
         std::to_string(predicted.total_peak);
}

}  // namespace zeroproof::tests
