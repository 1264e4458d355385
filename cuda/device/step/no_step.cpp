// Steps on a device, in a program that was built without CUDA.

#include "common/base/error.hpp"
#include "cuda/device/step/fold_look.hpp"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/device/step/scale_passes.hpp"
#include "cuda/device/step/step_passes.hpp"
#include "cuda/device/step/stored_passes.hpp"
#include "cuda/device/step/transpose_bytes.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "a step on a device was asked for", "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host twins");
}

}  // namespace

void enqueue_unscale(const StepMemory&) { no_device(); }
void enqueue_norm(const StepMemory&, const StepRules&) { no_device(); }
void enqueue_finite_norm(const StepMemory&, const StepRules&, bool) { no_device(); }
void enqueue_clip(const StepMemory&, const StepRules&) { no_device(); }
void enqueue_update(const StepMemory&, const StepRules&) { no_device(); }
void enqueue_cast(const StepMemory&, const StepRules&) { no_device(); }
void enqueue_fused_update(const StepMemory&, const StepRules&) { no_device(); }
void enqueue_decide(const StepMemory&, const StepRules&, std::uint32_t, bool) { no_device(); }

void enqueue_collect_amax(const StepMemory&, const ScaleMemory&, const ScaleRules&) { no_device(); }
void enqueue_make_scales(const StepMemory&, const ScaleMemory&, const ScaleRules&, ScalesFrom) {
  no_device();
}
void enqueue_make_codes(const StepMemory&, const ScaleMemory&, const ScaleRules&) { no_device(); }
void enqueue_dequantize_masters(const StepMemory&, const ScaleMemory&, const ScaleRules&) { no_device(); }
void enqueue_stored_update(const StepMemory&, const StoredMemory&, const StepRules&) { no_device(); }
void enqueue_stored_fused_update(const StepMemory&, const StoredMemory&, const StepRules&) { no_device(); }
void enqueue_store_fragments(const StepMemory&, const StoredMemory&) { no_device(); }
void enqueue_store_loaded(const StepMemory&, const StoredMemory&, const StepRules&, std::int64_t,
                          const LoadedValues&) {
  no_device();
}
void enqueue_copy_masters(const StepMemory&, const StoredMemory&) { no_device(); }
void enqueue_transpose_bytes(const ByteMatrix*, std::int64_t) { no_device(); }

void enqueue_fold(const DevicePieces&, const host::FoldPlan&, Span<const PlacedValues>, const PlacedValues&) {
  no_device();
}
void enqueue_fold_look(const DevicePieces&, const host::FoldPlan&, Span<const PlacedValues>,
                       const PlacedValues&, const GradLook&) {
  no_device();
}
void enqueue_binned_deposit(const DevicePieces&, const PlacedValues&, const PlacedBins&) { no_device(); }
void enqueue_binned_merge(const DevicePieces&, const PlacedBins&, const PlacedBins&) { no_device(); }
void enqueue_binned_finish(const DevicePieces&, const PlacedBins&, const PlacedValues&) { no_device(); }

}  // namespace zeroproof::cuda::device
