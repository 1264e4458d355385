#pragma once
// Stores that bypass the caches, for results too large to stay in them.

#include <cstddef>
#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof::cuda::host {

/// Whether a pass that writes so many bytes should bypass the caches.
inline bool streams_past_caches(std::int64_t num_bytes) {
  return num_bytes >= std::int64_t{16} << 20;
}

/// Copies bits. Shapes: source, target: [numel], no overlap. Errors: invalid_argument if the numels differ.
void copy_streamed(const Exec& exec, Span<const float> source, Span<float> target);

/// The same for any bytes. streamed: bypasses the caches where the target is aligned for it.
void copy_bytes(const Exec& exec, Span<const std::byte> source, Span<std::byte> target,
                bool streamed);

}  // namespace zeroproof::cuda::host
