#pragma once
// The groups of ranks that one side of a case communicates in.

#include <memory>

#include "common/comm/communicator.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {

class RankGroups {
 public:
  /// Collective over the world, unless the case is plain: then the world is the only group.
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
