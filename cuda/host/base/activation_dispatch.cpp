#include "cuda/host/base/isa.hpp"
#include "cuda/host/simd/activation_kernels.hpp"

namespace zeroproof::cuda::host {

namespace x86_64 {
extern const ActivationKernels activations;
}
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const ActivationKernels activations;
}
namespace x86_64_v4 {
extern const ActivationKernels activations;
}
#endif

const ActivationKernels& activation_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::activations;
  if (isa == Isa::x86_64_v3) return x86_64_v3::activations;
#endif
  return x86_64::activations;
}

}  // namespace zeroproof::cuda::host
