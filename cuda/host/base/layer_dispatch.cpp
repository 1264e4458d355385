#include "cuda/host/base/isa.hpp"
#include "cuda/host/simd/layer_kernels.hpp"

namespace zeroproof::cuda::host {

namespace x86_64 {
extern const LayerKernels layer_table;
}
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const LayerKernels layer_table;
}
namespace x86_64_v4 {
extern const LayerKernels layer_table;
}
#endif

const LayerKernels& layer_kernels(Isa isa) {
  if (isa == Isa::best) isa = best_isa();
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::layer_table;
  if (isa == Isa::x86_64_v3) return x86_64_v3::layer_table;
#endif
  return x86_64::layer_table;
}

}  // namespace zeroproof::cuda::host
