#pragma once
// For sweeps over many values: what was computed on the device is compared there too.

#include <cstdint>

namespace zeroproof::cuda::device {

/// Words in which two arrays in device memory differ, [numel] each, numel >= 0. Waits for the current stream.
/// Errors: what went wrong in it; internal while a graph is captured.
std::int64_t count_differing(const std::uint16_t* a, const std::uint16_t* b, std::int64_t numel);
std::int64_t count_differing(const std::uint32_t* a, const std::uint32_t* b, std::int64_t numel);

}  // namespace zeroproof::cuda::device
