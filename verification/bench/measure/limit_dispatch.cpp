#include "verification/bench/measure/limit_loops.hpp"

namespace zeroproof::verification::bench {

namespace x86_64 {
extern const LimitLoops loops;
}
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const LimitLoops loops;
}
namespace x86_64_v4 {
extern const LimitLoops loops;
}
#endif

const LimitLoops& limit_loops([[maybe_unused]] Isa isa) {
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::loops;
  if (isa == Isa::x86_64_v3) return x86_64_v3::loops;
#endif
  return x86_64::loops;
}

}  // namespace zeroproof::verification::bench
