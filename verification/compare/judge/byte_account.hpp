#pragma once
// Memory and traffic of a candidate, measured and compared with the prediction.

#include <array>
#include <optional>
#include <vector>

#include "common/comm/recording.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/result.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"

namespace zeroproof::verification {

/// The account of one rank. Device candidates and plug-ins have none: their transport is no
/// Communicator that can be wrapped, and plug-ins report no memory.
class ByteAccount {
 public:
  explicit ByteAccount(const CaseSpec& spec)
      : kept_(!spec.implementation.foreign && spec.implementation.space == Space::host) {}

  /// Replaces the communicators of the setup by counting ones. The originals must outlive this
  /// object.
  void place(OptimizerSetup& setup);

  /// Called before the first step, so that traffic of loading a state is not counted. layers: of
  /// the gradient source, null without layers.
  void begin(const LayeredModel* layers);
  void end_step(const DistributedOptimizer& candidate);

  /// Empty before the second step.
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
