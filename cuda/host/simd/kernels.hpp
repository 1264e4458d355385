#pragma once
// The loops of the host implementations over raw memory. The *_kernels.cpp files are compiled once
// per instruction set; the rest of the program calls the variants through this table. Only plain
// pointers and plain structs here: an inline function compiled for AVX-512 and merged by the linker
// into baseline code would crash older machines.

#include <cstdint>

#include "common/base/dtype.hpp"
#include "common/base/exec.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::host {

/// Transformation of a gradient on its way into an update rule (R6), every line always evaluated.
/// The defaults are neutral and change no bit, so one loop serves the update phase and the fused
/// pass.
struct GradientChain {
  float unscale = 1.0F;
  float clip_coef = 1.0F;
  float clip_limit = __builtin_inff();  ///< no value is above infinity
  std::uint32_t sign_flip = 0;          ///< 0x80000000 with maximize
};

struct UpdateForm {
  UpdateRule rule = UpdateRule::adamw;
  bool amsgrad = false;      ///< adamw, adam
  bool momentum = false;     ///< sgd
  bool nesterov = false;     ///< sgd
  float trust_ratio = 1.0F;  ///< lamb
};

/// Buffers not used by the form are not read.
struct UpdateBuffers {
  const float* grad = nullptr;
  float* master = nullptr;
  PerSlot<float*> slots = {};
};

/// none: parameters are cast later, where their scales are known.
enum class ParamKind : std::uint8_t { fp32, bf16, fp16, stochastic_bf16, none };

/// Where a draw starts (R15): index is that of the first element.
struct Draw {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t index = 0;
};

struct ParamTarget {
  void* data = nullptr;
  ParamKind kind = ParamKind::fp32;
  bool stream = false;  ///< stored bypassing the caches where the instruction set can
  Draw draw = {};       ///< stochastic_bf16
};

/// The first element of a range of a gradient: of a node, or of a micro-batch gradient in its
/// 16-bit type.
struct GradStretch {
  const void* data = nullptr;
  DType dtype = DType::fp32;  ///< fp32, bf16 or fp16
};

/// slot[to] = left + right in fp32; negative numbers are operands (-1 - index), others slots.
struct FoldAddition {
  std::int64_t left, right, to;
};

/// The additions of a sum in their order; the last one makes it. Without additions it is the one operand.
struct Fold {
  const FoldAddition* additions = nullptr;
  std::int64_t num_additions = 0;
  const GradStretch* operands = nullptr;
};

/// Partial sums in use at the same time: at most one for every level of a tree over 2^63
/// micro-batches.
inline constexpr int most_fold_slots = 64;

/// Parts into which the squares of any block of finite fp32 values can be split without rounding
/// (exact_sum.cpp).
inline constexpr int most_split_levels = 13;

/// Extreme magnitudes of a range of fp32 values.
struct MagnitudeCounts {
  std::uint32_t amax = 0;  ///< as bits; 0x7FFFFFFF for a NaN
  std::uint32_t num_nonfinite = 0;
  std::uint32_t num_zeros = 0;
};

struct SimdKernels {
  void (*add)(const float* left, const float* right, float* sum, std::int64_t numel);
  /// sum[i] = the sum of the operands' elements begin + i. sum may be the memory of an operand, unless it is streamed:
  /// then its stores bypass the caches if it starts a cache line, ordered before the caller's
  /// next stores.
  void (*fold)(const Fold& fold, std::int64_t begin, float* sum, std::int64_t numel, bool streamed);
  /// The same, and the chunk sums of unscale_chunk_sums over sum.
  std::uint32_t (*fold_chunk_sums)(float inv_scale, const Fold& fold, std::int64_t begin,
                                   float* sum, std::int64_t numel, bool streamed, double* sums);
  /// Returns non-zero if any product is not finite.
  std::uint32_t (*unscale)(float inv_scale, const float* source, float* target, std::int64_t numel);
  /// The same without storing the products.
  std::uint32_t (*any_not_finite)(float inv_scale, const float* source, std::int64_t numel);
  void (*scale)(float factor, const float* source, float* target, std::int64_t numel);
  void (*clip_value)(float limit, float* values, std::int64_t numel);

  /// sums[c] = chunk value of R12 for the chunk that starts at source + 1024 c; the last one may be short.
  void (*chunk_sums)(const float* source, std::int64_t numel, double* sums);
  /// The same over source[i] * inv_scale, each product rounded to fp32; returns non-zero if one is not
  /// finite.
  std::uint32_t (*unscale_chunk_sums)(float inv_scale, const GradStretch& source,
                                      std::int64_t numel, double* sums);
  /// Largest magnitude of source[i] * factor as bits; a NaN has bits above infinity.
  std::uint32_t (*largest_magnitude)(float factor, const float* source, std::int64_t numel);
  /// The same, and the smallest that is not zero (0x7FFFFFFF if all are).
  void (*magnitude_range)(float factor, const float* source, std::int64_t numel,
                          std::uint32_t* smallest, std::uint32_t* largest);
  /// At most 2^31 elements.
  MagnitudeCounts (*count_magnitudes)(const float* source, std::int64_t numel);
  /// Splits every square (or magnitude) of source[i] * factor with levels - 1 shifters and adds up the parts of each
  /// level: sums[levels]. No rounding if the shifters were chosen for the values, see exact_sum.cpp. 1 <= levels <=
  /// most_split_levels.
  void (*split_squares)(float factor, const float* source, std::int64_t numel, int levels,
                        const double* shifters, double* sums);
  void (*split_magnitudes)(float factor, const float* source, std::int64_t numel, int levels,
                           const double* shifters, double* sums);
  /// Sum of (|x| / largest)^power in fp64, power >= 1; the order is the same for every instruction set.
  double (*power_sum)(double largest, int power, const float* source, std::int64_t numel);

  void (*to_bf16)(const float* source, std::uint16_t* target, std::int64_t numel);
  void (*to_bf16_streamed)(const float* source, std::uint16_t* target, std::int64_t numel);
  /// Any bits, bypassing the caches; ordered before the caller's next stores.
  void (*copy_streamed)(const float* source, float* target, std::int64_t numel);
  void (*to_fp16)(const float* source, std::uint16_t* target, std::int64_t numel);
  void (*to_e4m3)(const float* source, std::uint8_t* target, std::int64_t numel);
  void (*to_e5m2)(const float* source, std::uint8_t* target, std::int64_t numel);
  void (*from_bf16)(const std::uint16_t* source, float* target, std::int64_t numel);
  void (*from_fp16)(const std::uint16_t* source, float* target, std::int64_t numel);
  void (*from_e4m3)(const std::uint8_t* source, float* target, std::int64_t numel);
  void (*from_e5m2)(const std::uint8_t* source, float* target, std::int64_t numel);
  void (*to_bf16_stochastic)(const Draw& draw, const float* source, std::uint16_t* target,
                             std::int64_t numel);

  void (*update)(const UpdateForm& form, const GradientChain& chain, const StepScalars& scalars,
                 const UpdateBuffers& buffers, std::int64_t numel);
  /// The same and the cast of master, in one pass over memory, with the gradient from `GradStretch`
  /// (not from the buffers).
  void (*fused_update)(const UpdateForm& form, const GradientChain& chain,
                       const StepScalars& scalars, const GradStretch& grad,
                       const UpdateBuffers& buffers, const ParamTarget& param, std::int64_t numel);
  /// u[i] = the update of lamb before it is scaled. Reads master, exp_avg and exp_avg_sq only.
  void (*lamb_updates)(const GradientChain& chain, const StepScalars& scalars,
                       const GradStretch& grad, const float* master, const float* exp_avg,
                       const float* exp_avg_sq, float* u, std::int64_t numel);
};

/// The table of one instruction set; Isa::best is resolved. Errors: as best_isa().
const SimdKernels& simd_kernels(Isa isa);

}  // namespace zeroproof::cuda::host
