// Other wrong passes over elements from public bugs: unscale, norm, cast.

#include <bit>

#include "cuda/host/operations.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

bool unscaled_twice(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                    Span<float> grad) {
  return cuda::host::unscale(exec, inv_scale * inv_scale, grad_sum, grad);
}

/// The elements are not checked for finite values.
bool overflow_unseen(const Exec&, float inv_scale, Span<const float> grad_sum, Span<float> grad) {
  for (std::size_t i = 0; i < grad.size(); ++i) grad[i] = inv_scale * grad_sum[i];
  return false;
}

/// Short tensors are added by a fallback and again by the main path.
void short_ones_twice(const Exec& exec, Span<const float> grad, NormLimbs& limbs) {
  if (numel(grad) < norm_chunk_numel) cuda::host::grad_norm_accumulate(exec, grad, limbs);
  cuda::host::grad_norm_accumulate(exec, grad, limbs);
}

std::size_t vectors(std::size_t numel) { return numel / 16 * 16; }

/// Full vectors are converted but never stored.
void body_not_stored(const Exec& exec, Span<const float> source, Span<fp16> target) {
  const std::size_t body = vectors(source.size());
  cuda::host::cast_to_fp16(exec, source.subspan(body), target.subspan(body));
}

void body_not_stored_bf16(const Exec& exec, Span<const float> source, Span<bf16> target) {
  const std::size_t body = vectors(source.size());
  cuda::host::cast_to_bf16(exec, source.subspan(body), target.subspan(body));
}

/// The wider instruction set truncates; the others round.
void truncated_by_one_isa(const Exec& exec, Span<const float> source, Span<bf16> target) {
  if (exec.isa == Isa::x86_64) return cuda::host::cast_to_bf16(exec, source, target);
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(source[i]) >> 16);
  }
}

}  // namespace

bool put_wrong_passes(std::string_view fault, cuda::KernelTable& ops) {
  if (fault == "double-unscale") {
    ops.unscale = unscaled_twice;
  } else if (fault == "found-inf-dropped-without-scaler" || fault == "overflow-unchecked-in-bf16") {
    ops.unscale = overflow_unseen;
  } else if (fault == "short-pieces-counted-twice") {
    ops.grad_norm_accumulate = short_ones_twice;
  } else if (fault == "vector-body-not-stored") {
    ops.cast_to_fp16 = body_not_stored;
    ops.cast_to_bf16 = body_not_stored_bf16;
  } else if (fault == "truncated-by-one-isa") {
    ops.cast_to_bf16 = truncated_by_one_isa;
  } else {
    return false;
  }
  return true;
}

}  // namespace zeroproof::verification
