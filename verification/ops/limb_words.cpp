#include "verification/ops/limb_words.hpp"

#include <algorithm>

namespace zeroproof::verification {

NormLimbs get_limbs(Span<const std::uint64_t> words) {
  NormLimbs limbs;
  std::copy_n(words.begin(), limbs.limbs.size(), limbs.limbs.begin());
  limbs.nan_count = words[21];
  limbs.inf_count = words[22];
  return limbs;
}

void put_limbs(const NormLimbs& limbs, Span<std::uint64_t> words) {
  std::copy(limbs.limbs.begin(), limbs.limbs.end(), words.begin());
  words[21] = limbs.nan_count;
  words[22] = limbs.inf_count;
}

NormLimbs initial_limbs(int variant) {
  NormLimbs limbs;
  if (variant != 1) return limbs;
  for (std::size_t i = 0; i < limbs.limbs.size(); ++i) limbs.limbs[i] = 0xFFFFFFFFU - i;
  limbs.inf_count = 2;
  return limbs;
}

void draw_limb_set(const OpCall& call, std::int64_t index, std::uint32_t first_block,
                   Span<std::uint64_t> words) {
  const PhiloxBlock w = call.words(0, index, first_block);
  const std::size_t low = w[0] % 21U;
  const std::size_t high = std::min<std::size_t>(20, low + w[1] % 6U);
  for (std::size_t k = 0; k < limb_words; ++k) {
    const PhiloxBlock digit = call.words(0, index, first_block + 1 + static_cast<std::uint32_t>(k));
    std::uint64_t value = k >= low && k <= high ? digit[0] : 0;
    if (value != 0 && w[2] % 4U == 0)
      value |= std::uint64_t{digit[1]} >> 1 << 32;  // carries not propagated yet
    if (value != 0 && w[2] % 4U == 1)
      value = std::uint64_t{1} << digit[1] % 32U;  // ties of the final rounding
    if (k >= 21) value = w[3] % 16U == k - 21 ? 1 + digit[0] % 3U : 0;
    words[k] = value;
  }
}

void draw_limbs(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    draw_limb_set(
        call, i, 0,
        call.get<std::uint64_t>(0).subspan(static_cast<std::size_t>(i) * limb_words, limb_words));
  }
}

OpFunction run_limbs_finish(GradNormFinishFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      call.get<double>(1)[i] =
          implementation(get_limbs(call.in<std::uint64_t>(0).subspan(i * limb_words, limb_words)));
    }
  };
}

OpFunction run_accumulate(GradNormAccumulateFn* implementation, GradNormNormaliseFn* normalise,
                          std::size_t cut_at) {
  return [=](OpCall& call) {
    const Span<const float> grad = call.in<float>(0);
    NormLimbs limbs = initial_limbs(call.variant());
    const std::size_t cut = call.variant() == 2 ? grad.size() / 2 / cut_at * cut_at : 0;
    if (cut > 0) implementation(call.exec, grad.first(cut), limbs);
    implementation(call.exec, grad.subspan(cut), limbs);
    normalise(limbs);
    put_limbs(limbs, call.get<std::uint64_t>(1));
  };
}

}  // namespace zeroproof::verification
