#pragma once
// Memory of a device, memory of the host that a device can reach by itself, and copies. Needs no CUDA.
//
// Everything here is enqueued on the current stream (stream.hpp), allocations included: memory may be used by what
// comes later in that stream, and elsewhere only after an event. The host never touches device memory.

#include <cstdint>

namespace zeroproof::cuda::device {

/// Aligned to at least 256 bytes; content undefined. num_bytes > 0.
/// Errors: unavailable if the device has not so much.
void* device_allocate(std::int64_t num_bytes);

/// Gives it back after what the current stream was given so far. Throws nothing: an error that lasts is reported by the
/// next call that can.
void device_release(void* data) noexcept;

/// Memory of the host that stays where it is, so that copies from and to it need not wait. num_bytes > 0.
/// Errors: unavailable if the system refuses.
void* pinned_allocate(std::int64_t num_bytes);

/// Nothing that is enqueued may still use it.
void pinned_release(void* data) noexcept;

/// Memory of the current device at addresses that the host has too: who writes is followed by who reads in the order of
/// streams and waits, never by itself. Content undefined. num_bytes > 0.
/// Errors: unavailable if the device has not so much, or shares no addresses with the host.
void* shared_allocate(std::int64_t num_bytes);

/// Whole pages of such memory lie on the host from now on, and the device reaches them there.
void keep_on_host(void* data, std::int64_t num_bytes);

/// Nothing that is enqueued may still use it.
void shared_release(void* data) noexcept;

/// Enqueues a copy. Host memory has to be pinned, and is read or written when the device comes to it.
void enqueue_to_device(void* device, const void* pinned, std::int64_t num_bytes);
void enqueue_to_host(void* pinned, const void* device, std::int64_t num_bytes);
void enqueue_on_device(void* target, const void* source, std::int64_t num_bytes);
void enqueue_fill(void* device, unsigned char byte, std::int64_t num_bytes);

/// The same from and to host memory of any kind, through pinned memory of the current stream; waits only where more is
/// under way than that holds. Memory that is copied from is the caller's again at once; memory that is copied to has to
/// stay until wait_for_stream(), and is filled then.
/// Errors: internal while a graph is captured. Nothing that was asked for is filled any more.
void stage_to_device(void* device, const void* host, std::int64_t num_bytes);
void stage_to_host(void* host, const void* device, std::int64_t num_bytes);

/// Where memory lies; the answer does not wait, and is not enqueued. Managed memory lies on both sides.
bool lies_on_device(const void* data);  ///< on that of this host thread
bool lies_on_host(const void* data);

}  // namespace zeroproof::cuda::device
