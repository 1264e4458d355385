#pragma once
// Loops without arithmetic: the memory rate of a device with the accesses of a pass. Enqueued on
// the current stream; pointers are 16-byte aligned device memory, numel a multiple of 4.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroproof::verification::bench {

/// Vectors that a thread loads before it uses the first, in every loop: 1, 2, 4 or 8.
inline constexpr int unrolls[] = {1, 2, 4, 8};

/// Reads 4 bytes an element. sink: one word that hardly anything is written to.
void enqueue_read_loop(int unroll, const void* from, std::int64_t numel, std::uint32_t* sink);

/// Reads and writes 4 bytes an element.
void enqueue_copy_loop(int unroll, const void* from, void* to, std::int64_t numel);

/// Reads 2 bytes an element of every gradient, writes 4. 1, 2, 4 or 8 gradients.
void enqueue_fold_loop(int unroll, const std::vector<const std::uint16_t*>& leaves, void* to,
                       std::int64_t numel);

/// Reads and writes of a step after the norm.
struct StepAccess {
  const float* grad = nullptr;
  float* master = nullptr;  // rewritten with the same bits, like the next two
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  std::uint16_t* param = nullptr;
};

/// Reads 4 arrays of 4 bytes an element, writes 3 of them and one of 2 bytes.
void enqueue_step_loop(int unroll, const StepAccess& access, std::int64_t numel);

/// CUB's sum of squares in fp32, added in an order chosen for the device, into sum. scratch: the
/// number of bytes that the first function returns, 0 without CUB (on a simulated device).
std::size_t unordered_norm_bytes(const float* values, float* sum, std::int64_t numel);
void enqueue_unordered_norm(const float* values, float* sum, std::int64_t numel, void* scratch,
                            std::size_t num_bytes);

}  // namespace zeroproof::verification::bench
