#include "cuda/device/grad_norm.hpp"

#include <algorithm>

#include "cuda/host/grad_norm.hpp"
#include "reference/grad_norm.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t limb_words = 23;

NormLimbs limbs_from(Span<const std::uint64_t> words) {
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

/// Carries are free before normalisation, so the limbs are compared after it. Variant 0 starts from nothing, variant 1
/// from limbs that hold something, variant 2 adds two pieces cut at a chunk.
OpFunction run_accumulate(GradNormAccumulateFn* twin, GradNormNormaliseFn* normalise) {
  return [=](OpCall& call) {
    const Span<const float> grad = call.in<float>(0);
    NormLimbs limbs;
    if (call.variant() == 1) {
      for (std::size_t i = 0; i < limbs.limbs.size(); ++i) limbs.limbs[i] = 0xFFFFFFFFU - i;
      limbs.inf_count = 2;
    }
    const std::size_t cut = call.variant() == 2 ? grad.size() / 2 / norm_chunk_numel * norm_chunk_numel : 0;
    if (cut > 0) twin(call.exec, grad.first(cut), limbs);
    twin(call.exec, grad.subspan(cut), limbs);
    normalise(limbs);
    put_limbs(limbs, call.get<std::uint64_t>(1));
  };
}

OpFunction run_normalise(GradNormNormaliseFn* twin) {
  return [twin](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const Span<std::uint64_t> words = call.get<std::uint64_t>(0).subspan(i * limb_words, limb_words);
      NormLimbs limbs = limbs_from(words);
      twin(limbs);
      put_limbs(limbs, words);
    }
  };
}

OpFunction run_finish(GradNormFinishFn* twin) {
  return [twin](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      call.get<double>(1)[i] =
          twin(limbs_from(call.in<std::uint64_t>(0).subspan(i * limb_words, limb_words)));
    }
  };
}

/// A run of filled limbs at any height, now and then with carries above 32 bits, halfway patterns, counts.
void draw_limbs(OpCall& call) {
  const Span<std::uint64_t> words = call.get<std::uint64_t>(0);
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(0, i);
    const std::size_t low = w[0] % 21U;
    const std::size_t high = std::min<std::size_t>(20, low + w[1] % 6U);
    for (std::size_t k = 0; k < limb_words; ++k) {
      const PhiloxBlock digit = call.words(0, i, 1 + static_cast<std::uint32_t>(k));
      std::uint64_t value = k >= low && k <= high ? digit[0] : 0;
      if (value != 0 && w[2] % 4U == 0)
        value |= std::uint64_t{digit[1]} >> 1 << 32;  // carries not moved up yet
      if (value != 0 && w[2] % 4U == 1)
        value = std::uint64_t{1} << digit[1] % 32U;  // ties of the final rounding
      if (k >= 21) value = w[3] % 16U == k - 21 ? 1 + digit[0] % 3U : 0;
      words[static_cast<std::size_t>(i) * limb_words + k] = value;
    }
  }
}

}  // namespace

std::vector<Op> grad_norm_ops() {
  Op accumulate;
  accumulate.name = "grad_norm_accumulate";
  accumulate.contract = "grad_norm.hpp";
  accumulate.type = "GradNormAccumulateFn";
  accumulate.exactness = Exactness::ordered;
  accumulate.phases = {Phase::norm};
  accumulate.variants = {"from zero", "onto limbs", "two pieces"};
  accumulate.operands = {input("grad"), fixed(output("limbs", DType::u64), limb_words)};
  accumulate.fills = number_fills();
  accumulate.reference = run_accumulate(reference::grad_norm_accumulate, reference::grad_norm_normalise);
  accumulate.host = run_accumulate(cuda::host::grad_norm_accumulate, cuda::host::grad_norm_normalise);
  accumulate.device = run_accumulate(cuda::device::grad_norm_accumulate, cuda::host::grad_norm_normalise);

  Op normalise;
  normalise.name = "grad_norm_normalise";
  normalise.contract = "grad_norm.hpp";
  normalise.type = "GradNormNormaliseFn";
  normalise.exactness = Exactness::integer;
  normalise.phases = {Phase::norm};
  normalise.operands = {per_element(in_place("limbs", Content::given, DType::u64), limb_words)};
  normalise.fills = {Fill::sweep};
  normalise.largest = 4097;
  normalise.generate = draw_limbs;
  normalise.reference = run_normalise(reference::grad_norm_normalise);
  normalise.host = run_normalise(cuda::host::grad_norm_normalise);

  Op finish = normalise;
  finish.name = "grad_norm_finish";
  finish.type = "GradNormFinishFn";
  finish.exactness = Exactness::bitwise;
  finish.operands = {per_element(input("limbs", Content::given, DType::u64), limb_words),
                     output("grad_norm", DType::fp64)};
  finish.reference = run_finish(reference::grad_norm_finish);
  finish.host = run_finish(cuda::host::grad_norm_finish);
  return {accumulate, normalise, finish};
}

}  // namespace zeroproof::verification
