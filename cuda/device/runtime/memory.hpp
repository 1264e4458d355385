#pragma once
// Device memory, host memory that a device can access, and copies. Needs no CUDA.
//
// Everything here is enqueued on the current stream (stream.hpp), including allocations: later work
// of that stream may use the memory; other streams need an event first. The host never touches
// device memory.

#include <cstdint>

namespace zeroproof::cuda::device {

/// Aligned to at least 256 bytes; content undefined. num_bytes > 0.
/// Errors: unavailable if the device has too little free memory.
void* device_allocate(std::int64_t num_bytes);

/// Frees the memory after the work that the current stream has so far. Does not throw: the next
/// call that can throw reports a persistent error.
void device_release(void* data) noexcept;

/// Pinned host memory, so that copies from and to it need not wait. num_bytes > 0.
/// Errors: unavailable if the system refuses.
void* pinned_allocate(std::int64_t num_bytes);

/// No enqueued work may still use it.
void pinned_release(void* data) noexcept;

/// Memory of the current device that has the same addresses on the host. Writes are ordered before
/// reads only by streams and waits, never implicitly. Content undefined. num_bytes > 0. Errors:
/// unavailable if the device has too little free memory, or shares no addresses with the host.
void* shared_allocate(std::int64_t num_bytes);

/// Moves whole pages of such memory to the host; the device accesses them there from now on.
void keep_on_host(void* data, std::int64_t num_bytes);

/// No enqueued work may still use it.
void shared_release(void* data) noexcept;

/// Enqueues a copy. Host memory must be pinned; it is read or written when the device executes the
/// copy.
void enqueue_to_device(void* device, const void* pinned, std::int64_t num_bytes);
void enqueue_to_host(void* pinned, const void* device, std::int64_t num_bytes);
void enqueue_on_device(void* target, const void* source, std::int64_t num_bytes);
void enqueue_fill(void* device, unsigned char byte, std::int64_t num_bytes);

/// The same from and to any host memory, through pinned memory of the current stream; waits only if
/// the pending copies fill that memory. A source may be reused as soon as the call returns; a
/// target must exist until wait_for_stream(), which fills it. Errors: internal while a graph is
/// captured; pending targets are then not filled.
void stage_to_device(void* device, const void* host, std::int64_t num_bytes);
void stage_to_host(void* host, const void* device, std::int64_t num_bytes);

/// Location of memory; neither waits nor is enqueued. Managed memory is on both sides.
bool is_on_device(const void* data);  ///< on the device of this host thread
bool is_on_host(const void* data);

}  // namespace zeroproof::cuda::device
