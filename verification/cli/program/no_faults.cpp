// Programs without planted faults.

#include "common/base/error.hpp"
#include "verification/cli/program/plant.hpp"

namespace zeroproof::verification {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::unavailable, "this program has no planted faults",
       "only zeroproof-faults has them", "use build/zeroproof-faults, which ./tests/run builds");
}

}  // namespace

bool faults_built() { return false; }

std::unique_ptr<DistributedOptimizer> plant_fault(std::string_view, const OptimizerSetup&, Space,
                                                  bool, bool) {
  refuse();
}

std::unique_ptr<Communicator> plant_transport(std::string_view, Communicator&) { refuse(); }

std::unique_ptr<LbfgsOptimizer> plant_fault(std::string_view, const LbfgsSetup&) { refuse(); }

std::unique_ptr<Communicator> plant_fault(std::string_view, Communicator&) { refuse(); }

cuda::KernelTable plant_fault(std::string_view, const cuda::KernelTable&) { refuse(); }

std::function<void(OpCall&)> plant_fault_in(std::string_view, std::string_view) { refuse(); }

}  // namespace zeroproof::verification
