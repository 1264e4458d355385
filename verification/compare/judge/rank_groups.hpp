#pragma once
// The process groups of one side of a case.

#include <memory>

#include "common/comm/communicator.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {

class RankGroups {
 public:
  /// Collective over the world, except for a plain case, whose only group is the world.
  RankGroups(const CaseLayout& layout, Communicator& world);

  /// Sets comm, replicas and tp.
  void place(OptimizerSetup& setup) const;

  Communicator* tp() const { return tp_.get(); }  ///< null without tensor parallelism
  Communicator* cp() const { return cp_.get(); }  ///< null without context parallelism

 private:
  Communicator& world_;
  std::unique_ptr<Communicator> shard_, replicas_, tp_, cp_;
};

}  // namespace zeroproof::verification
