#include <algorithm>

#include "cuda/host/base/isa.hpp"
#include "verification/bench/limit_loops.hpp"

namespace zeroproof::verification::bench {

namespace x86_64 {
extern const Span<const LimitLoop> loops;
}
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const Span<const LimitLoop> loops;
}
namespace x86_64_v4 {
extern const Span<const LimitLoop> loops;
}
#endif

Span<const LimitLoop> limit_loops([[maybe_unused]] Isa isa) {
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::loops;
  if (isa == Isa::x86_64_v3) return x86_64_v3::loops;
#endif
  return x86_64::loops;
}

const LimitLoop& limit_loop(const std::string& shape, bool streamed) {
  return *std::ranges::find_if(limit_loops(cuda::host::best_isa()), [&](const LimitLoop& loop) {
    return loop.shape == shape && loop.streamed == streamed;
  });
}

void LimitLoop::operator()(const LimitBuffers& buffers, std::int64_t begin,
                           std::int64_t end) const {
  volatile std::uint32_t seen =
      run(buffers, 0, begin, end - begin);  // volatile: an unused result is not removed
  static_cast<void>(seen);
}

}  // namespace zeroproof::verification::bench
