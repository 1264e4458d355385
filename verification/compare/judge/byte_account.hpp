#pragma once
// What a candidate holds and sends, counted where it happens, beside what was computed for it.

#include <array>
#include <optional>
#include <vector>

#include "common/comm/recording.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/result.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"

namespace zeroproof::verification {

/// Of one rank. Candidates on devices and plug-ins keep no account: their transport are no Communicator that can be
/// wrapped, and a plug-in says nothing about its memory.
class ByteAccount {
 public:
  explicit ByteAccount(const CaseSpec& spec)
      : kept_(!spec.implementation.foreign && spec.implementation.space == Space::host) {}

  /// Puts counting communicators in the place of the setup's, which must outlive this object.
  void place(OptimizerSetup& setup);

  /// Before the first step: what loading a state sends is not counted. layers: of the leaf source, null if leaves come
  /// whole.
  void begin(const LayeredModel* layers);
  void end_step(const DistributedOptimizer& candidate);

  /// None before the second step.
  std::vector<RankBytes> result(int rank) const;

 private:
  static constexpr std::size_t num_groups = 3;  // as CommGroup
  using Counted = std::array<std::array<TrafficEntry, num_collectives>, num_groups>;

  bool kept_;
  bool begun_ = false;
  int steps_ = 0;
  OptimizerSetup setup_;
  std::array<std::optional<RecordingCommunicator>, num_groups> records_;
  StepTraffic applied_, skipped_;  // predicted
  MemoryUse held_, planned_;
  Counted sent_, expected_;
};

}  // namespace zeroproof::verification
