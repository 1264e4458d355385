#pragma once
// 8-bit parameters on a device (R24): the kernels of phase cast, after an update that only computes
// masters.
//
// A step: collect_amax; [maximum of collected over ranks] make_scales; make_codes. Everything is
// enqueued on the current stream, nothing waits, nothing is allocated, no argument changes between
// steps. None of them changes anything after a halt, in a skipped step, or for tensors without a
// gradient under missing_grad = skip. Needs no CUDA.

#include <cstdint>

#include "common/base/dtype.hpp"
#include "common/step/param_scaling.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// A range of the shard that is also one range of its undistributed tensor. The height and width of
/// a block are powers of two, or at least those of the tensor: the shift then makes every row or
/// column index 0.
struct ScalePiece {
  static constexpr std::int64_t most_numel = StepPiece::most_numel;
  static constexpr int whole = 62;

  std::int64_t local_begin = 0;
  std::int64_t numel = 0;  ///< 1 to most_numel
  std::int64_t tensor = 0;
  std::int64_t first = 0;  ///< its first element, counted in the undistributed tensor
  std::int64_t columns = 1;
  std::int64_t first_block = 0;    ///< of the tensor
  std::int64_t blocks_across = 1;  ///< of the tensor
  std::int32_t row_shift = whole, column_shift = whole;
};

/// Device pointers besides those of StepMemory.
struct ScaleMemory {
  const ScalePiece* pieces = nullptr;          // [num_pieces]
  const std::int64_t* first_blocks = nullptr;  // [num_tensors], never falling
  std::uint64_t* collected =
      nullptr;  // [num_blocks], as all below: amax of this rank, then of all; 0 between steps
  std::uint32_t* amax = nullptr;
  std::uint32_t* history = nullptr;  // [num_blocks][slots]; under delayed
  float* scale = nullptr;
  float* scale_inv = nullptr;
  std::int64_t num_pieces = 0;
  std::int64_t num_tensors = 0;
  std::int64_t num_blocks = 0;
};

struct ScaleRules {
  ParamScaling scaling;
  DType param_dtype = DType::e4m3;  ///< or e5m2
};

/// collected = the maximum of collected and the amax of this rank's masters.
void enqueue_collect_amax(const StepMemory& memory, const ScaleMemory& scales,
                          const ScaleRules& rules);

/// Source of the scales. From masters, `collected` is 0 again afterwards, unless the step is skipped
/// or halted, in which nothing was collected.
enum class ScalesFrom : std::uint8_t {
  masters,  ///< collected and, under delayed, the history, which advances
  state     ///< scales exist already: only scale_inv is computed from them
};
void enqueue_make_scales(const StepMemory& memory, const ScaleMemory& scales,
                         const ScaleRules& rules, ScalesFrom from);

/// param = the codes of the masters.
void enqueue_make_codes(const StepMemory& memory, const ScaleMemory& scales,
                        const ScaleRules& rules);

/// master = the value of its code.
void enqueue_dequantize_masters(const StepMemory& memory, const ScaleMemory& scales,
                                const ScaleRules& rules);

}  // namespace zeroproof::cuda::device
