#include "cuda/host/base/isa.hpp"
#include "cuda/host/simd/activation_kernels.hpp"
#include "cuda/host/simd/kernels.hpp"
#include "cuda/host/simd/layer_kernels.hpp"
#include "cuda/host/simd/matrix_kernels.hpp"

namespace zeroproof::cuda::host {

namespace x86_64 {
extern const SimdKernels kernels;
extern const LayerKernels layer_table;
extern const ActivationKernels activations;
extern const MatrixKernels matrix_table;
}  // namespace x86_64
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const SimdKernels kernels;
extern const LayerKernels layer_table;
extern const ActivationKernels activations;
extern const MatrixKernels matrix_table;
}  // namespace x86_64_v3
namespace x86_64_v4 {
extern const SimdKernels kernels;
extern const LayerKernels layer_table;
extern const ActivationKernels activations;
extern const MatrixKernels matrix_table;
}  // namespace x86_64_v4
namespace x86_64_v4_bf16 {
extern const MatrixKernels matrix_table;
}  // namespace x86_64_v4_bf16

namespace {

/// Whether x86-64-v4 is more on this processor: two terms of a matrix product in an instruction.
bool has_pairs() {
  static const bool has =
      __builtin_cpu_supports("avx512bf16") && x86_64_v4_bf16::matrix_table.has_pairs();
  return has;
}

}  // namespace
#endif

const SimdKernels& simd_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::kernels;
  if (isa == Isa::x86_64_v3) return x86_64_v3::kernels;
#endif
  return x86_64::kernels;
}

const LayerKernels& layer_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::layer_table;
  if (isa == Isa::x86_64_v3) return x86_64_v3::layer_table;
#endif
  return x86_64::layer_table;
}

const ActivationKernels& activation_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::activations;
  if (isa == Isa::x86_64_v3) return x86_64_v3::activations;
#endif
  return x86_64::activations;
}

const MatrixKernels& matrix_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4)
    return has_pairs() ? x86_64_v4_bf16::matrix_table : x86_64_v4::matrix_table;
  if (isa == Isa::x86_64_v3) return x86_64_v3::matrix_table;
#endif
  return x86_64::matrix_table;
}

}  // namespace zeroproof::cuda::host
