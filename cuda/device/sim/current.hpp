#pragma once
// Internals of simulated streams.

#include <functional>
#include <memory>

#include "cuda/device/sim/streams.hpp"
#include "cuda/device/sim/work_queue.hpp"

namespace zeroproof::cuda::sim {

/// Queue of this thread's current stream.
const std::shared_ptr<WorkQueue>& current_queue();

/// Device of this thread's last choose_device(); 0 without one, as on a real machine.
int chosen_device();

/// In the order `early`: runs all work that can run, now that some was pushed on this queue.
void run_if_early(WorkQueue& pushed);

/// Adds a queue to those that the device executes, besides the queues of streams.
std::shared_ptr<WorkQueue> branch_queue();

}  // namespace zeroproof::cuda::sim
