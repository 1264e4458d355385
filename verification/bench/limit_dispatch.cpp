#include <algorithm>

#include "cuda/host/base/isa.hpp"
#include "verification/bench/limit_loops.hpp"

namespace zeroproof::verification::bench {

namespace x86_64 {
extern const Span<const LimitLoop> loops;
extern float (*const multiply_and_add)(std::int64_t);
}  // namespace x86_64
#if defined(ZP_ISA_VARIANTS)
namespace x86_64_v3 {
extern const Span<const LimitLoop> loops;
extern float (*const multiply_and_add)(std::int64_t);
}  // namespace x86_64_v3
namespace x86_64_v4 {
extern const Span<const LimitLoop> loops;
extern float (*const multiply_and_add)(std::int64_t);
}  // namespace x86_64_v4
#endif

Span<const LimitLoop> limit_loops([[maybe_unused]] Isa isa) {
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) return x86_64_v4::loops;
  if (isa == Isa::x86_64_v3) return x86_64_v3::loops;
#endif
  return x86_64::loops;
}

void multiply_and_add(std::int64_t count) {
  const Isa isa = cuda::host::best_isa();
  auto* run = x86_64::multiply_and_add;
#if defined(ZP_ISA_VARIANTS)
  if (isa == Isa::x86_64_v4) run = x86_64_v4::multiply_and_add;
  if (isa == Isa::x86_64_v3) run = x86_64_v3::multiply_and_add;
#endif
  volatile float seen = run(count);  // volatile: an unused result is not removed
  static_cast<void>(seen);
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
