#pragma once
// Simulated streams from inside.

#include <functional>
#include <memory>

#include "cuda/sim/streams.hpp"
#include "cuda/sim/work_queue.hpp"

namespace zeroproof::cuda::sim {

/// Of the current stream of this thread.
const std::shared_ptr<WorkQueue>& current_queue();

/// A queue that the device sees beside those of streams.
std::shared_ptr<WorkQueue> branch_queue();

}  // namespace zeroproof::cuda::sim
