#pragma once
// Simulated streams. No work runs when it is enqueued; it runs when a thread waits, on that thread.

#include <cstdint>
#include <functional>

namespace zeroproof::cuda::sim {

/// Effect of a wait for one stream on the others. Two pieces of work that no event orders run in
/// one order with the first value and, with the same waits, in the opposite order with the second:
/// a missing event shows in one of the two.
enum class StreamOrder : std::uint8_t {
  awaited_first,  ///< the awaited stream, and of others only work that its events need
  awaited_last,   ///< all runnable work of other streams, then that stream
};

/// For all streams of the process. Default: awaited_first.
void set_stream_order(StreamOrder order);

/// Enqueues work on the current stream of this thread.
void enqueue(std::function<void()> work);

}  // namespace zeroproof::cuda::sim
