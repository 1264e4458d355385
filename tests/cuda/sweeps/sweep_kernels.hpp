#pragma once

#include <cstdint>

namespace zeroproof::device_test {

// Results of the device for the floats with the bits first, first + 1, ..., in device memory,
// [numel]; enqueued on the current stream. Every NaN becomes 0x7FFFFFFF or 0x7FFF, because its bits
// are unspecified (R9).

void enqueue_roots(std::uint32_t first, std::int64_t numel, std::uint32_t* roots);
void enqueue_bf16(std::uint32_t first, std::int64_t numel, std::uint16_t* bits);
void enqueue_fp16(std::uint32_t first, std::int64_t numel, std::uint16_t* bits);

}  // namespace zeroproof::device_test
