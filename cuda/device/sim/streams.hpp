#pragma once
// Simulated streams. Nothing runs when it is enqueued; it runs when somebody waits, on the thread that waits.

#include <cstdint>
#include <functional>

namespace zeroproof::cuda::sim {

/// What a wait for one stream does with the others. Two pieces of work that no event orders run in one order with the
/// first and, if the waits are the same, in the other with the second: a forgotten event shows in one of them.
enum class StreamOrder : std::uint8_t {
  asked_first,  ///< the stream that is waited for, and of others only what its events ask for
  asked_last,   ///< all that other streams can do, then that one
};

/// For all streams of the process. asked_first unless told otherwise.
void set_stream_order(StreamOrder order);

/// Enqueues work on the current stream of this thread.
void enqueue(std::function<void()> work);

}  // namespace zeroproof::cuda::sim
