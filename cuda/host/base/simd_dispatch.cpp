#include "cuda/host/base/isa.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

namespace x86_64 {
extern const SimdKernels kernels;
}
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const SimdKernels kernels;
}
namespace x86_64_v4 {
extern const SimdKernels kernels;
}
#endif

const SimdKernels& simd_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::kernels;
  if (isa == Isa::x86_64_v3) return x86_64_v3::kernels;
#endif
  return x86_64::kernels;
}

}  // namespace zeroproof::cuda::host
