#pragma once
// Simulated streams from inside.

#include <functional>
#include <memory>

#include "cuda/device/sim/streams.hpp"
#include "cuda/device/sim/work_queue.hpp"

namespace zeroproof::cuda::sim {

/// Of the current stream of this thread.
const std::shared_ptr<WorkQueue>& current_queue();

/// What choose_device() gave this thread last; 0, as on a real machine, if it was not asked.
int chosen_device();

/// A queue that the device sees beside those of streams.
std::shared_ptr<WorkQueue> branch_queue();

}  // namespace zeroproof::cuda::sim
