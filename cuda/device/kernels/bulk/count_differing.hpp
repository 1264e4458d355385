#pragma once
// Compares on the device the many values that a sweep computed there.

#include <cstdint>

namespace zeroproof::cuda::device {

/// Number of words in which two arrays in device memory differ, [numel] each, numel >= 0. Waits for
/// the current stream. Errors: those of its work; internal while a graph is captured.
std::int64_t count_differing(const std::uint16_t* a, const std::uint16_t* b, std::int64_t numel);
std::int64_t count_differing(const std::uint32_t* a, const std::uint32_t* b, std::int64_t numel);

}  // namespace zeroproof::cuda::device
