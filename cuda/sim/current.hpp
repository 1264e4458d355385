#pragma once
// Simulated streams from inside.

#include <functional>
#include <memory>

#include "cuda/sim/streams.hpp"
#include "cuda/sim/work_queue.hpp"

namespace zeroproof::cuda::sim {

/// Of the current stream of this thread.
const std::shared_ptr<WorkQueue>& current_queue();

/// Whether it takes part in a capture.
bool capturing();

/// asked_first is set.
bool asked_stream_first();

}  // namespace zeroproof::cuda::sim
