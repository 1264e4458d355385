#pragma once
// Simulated streams. Work runs when a thread waits, on that thread, as late as possible; in the
// order `early` it runs as soon as possible.

#include <cstdint>
#include <functional>

namespace zeroproof::cuda::sim {

/// When enqueued work runs. The first two differ in the effect of a wait for one stream on the
/// others: two pieces of work that no event orders run in one order with the first value and, with
/// the same waits, in the opposite order with the second, so a missing event shows in one of the
/// two. Both run work late, so a host that reads too early sees old values; only the third shows
/// work that overwrites memory before the host, or a later piece of work, has read it.
enum class StreamOrder : std::uint8_t {
  awaited_first,  ///< the awaited stream, and of others only work that its events need
  awaited_last,   ///< all runnable work of other streams, then that stream
  early,          ///< all work when it is enqueued, or as soon as its events allow
};

/// For all streams of the process. Default: that of ZP_SIM_ORDER (awaited_first, awaited_last or
/// early), awaited_first without it. Work enqueued before stays where it is until the next call
/// that enqueues or waits. Errors of the variable: config at the first stream.
void set_stream_order(StreamOrder order);

/// The current order.
StreamOrder stream_order();

/// Enqueues work on the current stream of this thread.
void enqueue(std::function<void()> work);

}  // namespace zeroproof::cuda::sim
