// All device functions of a build without nvcc, but those of runtime/not_compiled.cpp. A call is an
// error.

#include "common/base/error.hpp"
#include "cuda/comm/combine_words.hpp"
#include "cuda/device/grad_stats.hpp"
#include "cuda/device/kernels/bulk/batched_copy.hpp"
#include "cuda/device/kernels/bulk/count_differing.hpp"
#include "cuda/device/kernels/update/newton_schulz.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/device/step/scale_passes.hpp"
#include "cuda/device/step/step_passes.hpp"
#include "cuda/device/step/stored_passes.hpp"
#include "cuda/device/step/transpose_bytes.hpp"
#include "cuda/reduce/sources/fill_grad.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void not_compiled() {
  fail(ErrorCode::unavailable, "a device implementation was called",
       "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host implementations");
}

}  // namespace

extern "C" void zp_not_compiled();
void zp_not_compiled() { not_compiled(); }

// Each of these functions is an alias of zp_not_compiled, which reads no argument and does not
// return.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
#define ZP_NOT_COMPILED(name, ...) decltype(name) name __attribute__((alias("zp_not_compiled")));

ZP_OPERATIONS(ZP_NOT_COMPILED)
ZP_NOT_COMPILED(enqueue_grad_stats)

// step/
ZP_NOT_COMPILED(enqueue_unscale)
ZP_NOT_COMPILED(enqueue_norm)
ZP_NOT_COMPILED(enqueue_clip)
ZP_NOT_COMPILED(enqueue_trust_norms)
ZP_NOT_COMPILED(enqueue_trust_ratios)
ZP_NOT_COMPILED(enqueue_matrix_momentum)
ZP_NOT_COMPILED(enqueue_matrix_update)
ZP_NOT_COMPILED(enqueue_update)
ZP_NOT_COMPILED(enqueue_cast)
ZP_NOT_COMPILED(enqueue_fused_update)
ZP_NOT_COMPILED(enqueue_decide)
ZP_NOT_COMPILED(enqueue_collect_amax)
ZP_NOT_COMPILED(enqueue_make_scales)
ZP_NOT_COMPILED(enqueue_make_codes)
ZP_NOT_COMPILED(enqueue_dequantize_masters)
ZP_NOT_COMPILED(enqueue_stored_update)
ZP_NOT_COMPILED(enqueue_stored_fused_update)
ZP_NOT_COMPILED(enqueue_stored_trust_norms)
ZP_NOT_COMPILED(enqueue_store_fragments)
ZP_NOT_COMPILED(enqueue_store_loaded)
ZP_NOT_COMPILED(enqueue_copy_masters)
ZP_NOT_COMPILED(enqueue_transpose_bytes)
ZP_NOT_COMPILED(enqueue_fold)
ZP_NOT_COMPILED(enqueue_measured_fold)
ZP_NOT_COMPILED(enqueue_binned_deposit)
ZP_NOT_COMPILED(enqueue_binned_merge)
ZP_NOT_COMPILED(enqueue_binned_finish)

// kernels/bulk/, kernels/update/, reduce/sources/, comm/
ZP_NOT_COMPILED(enqueue_batched_copy)
ZP_NOT_COMPILED(enqueue_newton_schulz)
ZP_NOT_COMPILED(enqueue_leaf)
ZP_NOT_COMPILED(enqueue_clock)
ZP_NOT_COMPILED(enqueue_until)
ZP_NOT_COMPILED(enqueue_combine)
ZP_NOT_COMPILED(enqueue_add_ranks)

// Written out: overloads, a default argument, and a class whose constructor throws.
void enqueue_finite_norm(const StepMemory&, const StepRules&, bool) { not_compiled(); }
std::int64_t count_differing(const std::uint16_t*, const std::uint16_t*, std::int64_t) {
  not_compiled();
}
std::int64_t count_differing(const std::uint32_t*, const std::uint32_t*, std::int64_t) {
  not_compiled();
}

DeviceSegments::DeviceSegments(Span<const GradSegment>) { not_compiled(); }

}  // namespace zeroproof::cuda::device
