#pragma once
// Simulated streams: plans on one thread, each operation as late as its waits allow.
//
// The same plan on a device (tests/cuda/streams runs plans that way): create one CUDA stream per PlanStream
// (non-blocking ones, so that the default stream orders nothing) and one event per number in PlanOp::records, without
// timing. Walk the operations in order; for each, cudaStreamWaitEvent(stream, event) for its waits, enqueue its kernels
// or collective, cudaEventRecord(event, stream) if it records one. Three things differ from threads. A wait for an
// event that is enqueued later is void, not a deadlock; the audit calls it late_event. Memory is given back at the
// time of the call, not in stream order, unless cudaFreeAsync takes it on the compute stream. And the host
// runs ahead, so allocations of `allocate` must be made by cudaMallocAsync on the compute stream too, or come
// from a pool that is dealt out in the order of the plan.

#include <array>
#include <cstddef>
#include <vector>

#include "cuda/runtime/plan_runner.hpp"

namespace zeroproof::cuda {

/// Runs one stream eagerly in order, and of the other only what a wait asks for, up to the operation that
/// records the event; what is left runs at the end. Two operations of different streams that nothing orders
/// therefore run in one order when the first stream is the eager one and in the other order when the second
/// is: a forgotten wait shows in one of the two, as NaN or as a buffer that is not there.
class WorstCaseStreams final : public PlanRunner {
 public:
  explicit WorstCaseStreams(PlanStream eager) : eager_(eager) {}

  void run(const StepPlan& plan, const PlanBody& body) override;

 private:
  struct Queue {
    std::vector<std::size_t> ops;
    std::size_t next = 0;
    bool busy = false;  // an operation of this stream waits for the other one
  };

  void run_next(Queue& queue);
  void run_until(int event, const PlanOp& waiter);

  const PlanStream eager_;
  const StepPlan* plan_ = nullptr;
  const PlanBody* body_ = nullptr;
  std::array<Queue, num_plan_streams> queues_;
  std::vector<bool> recorded_;  // [events]
};

}  // namespace zeroproof::cuda
