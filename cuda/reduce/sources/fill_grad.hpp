#pragma once
// Gradients computed by a kernel, and a delay in place of the time of a backward pass. All work is
// enqueued on the current stream. Needs no CUDA.

#include <cstdint>

#include "common/base/span.hpp"
#include "cuda/reduce/sources/grad_formula.hpp"

namespace zeroproof::cuda::device {

/// Elements [begin, begin + to.numel) of the gradient, in device memory. log2_scale: also in device
/// memory, read when the kernel runs. Errors: invalid_argument for another dtype than fp32, bf16 or
/// fp16.
void enqueue_leaf(const GradFormula& formula, std::int64_t step, std::int64_t micro_batch,
                  std::int64_t begin, const std::int32_t* log2_scale, const TensorView& to);

/// Writes the device clock. nanoseconds: in device memory.
void enqueue_clock(std::uint64_t* nanoseconds);

/// Blocks the stream, and one warp of the device, until that much time has passed since then.
/// Errors: invalid_argument unless 0 <= length <= most_nanoseconds.
void enqueue_until(const std::uint64_t* since, std::int64_t length);

inline constexpr std::int64_t most_nanoseconds = 10'000'000'000;

}  // namespace zeroproof::cuda::device
