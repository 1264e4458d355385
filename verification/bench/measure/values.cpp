#include "verification/bench/measure/values.hpp"

#include "common/base/philox.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Uniform in [low, high), one counter per four elements.
void fill(std::uint32_t stream, float low, float high, std::int64_t begin, Span<float> out) {
  const float width = high - low;
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto counter = static_cast<std::uint32_t>((begin + static_cast<std::int64_t>(i)) / 4);
    const PhiloxBlock words = philox4x32({counter, 0, stream, 0}, 1);
    for (std::size_t k = 0; k < 4 && i + k < out.size(); ++k)
      out[i + k] = low + width * (static_cast<float>(words[k] >> 8) * 0x1p-24F);
  }
}

}  // namespace

void fill_leaf(std::int64_t micro_batch, std::int64_t begin, Span<float> out) {
  fill(16 + static_cast<std::uint32_t>(micro_batch), -30.0F, 30.0F, begin, out);
}
void fill_master(std::int64_t begin, Span<float> out) { fill(2, -0.1F, 0.1F, begin, out); }
void fill_exp_avg(std::int64_t begin, Span<float> out) { fill(3, -0.01F, 0.01F, begin, out); }
void fill_exp_avg_sq(std::int64_t begin, Span<float> out) { fill(4, 1e-6F, 1e-4F, begin, out); }

OptimizerHyper step_hyper(bool clips) {
  OptimizerHyper hyper;
  if (!clips) hyper.max_norm.reset();
  return hyper;
}

}  // namespace zeroproof::verification::bench
