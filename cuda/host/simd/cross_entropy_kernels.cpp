// Cross-entropy over a part of the vocabulary, and its gradient.

#include "cuda/host/simd/block_sums.hpp"
#include "cuda/host/simd/elementary.hpp"
#include "cuda/host/simd/layer_variant.hpp"
#include "cuda/host/simd/ordered_key.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

/// The number with this key of the contract.
inline float number_of(std::uint32_t key) {
  return float_of_key(static_cast<std::int32_t>(key ^ 0x80000000U));
}

/// One NaN (R9), so that the integer is the same on every rank.
inline std::uint32_t canonical_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFFFFFU : bits;
}

/// From the probability p, and from a, which is p, or p - keep in the target's column.
template <bool smoothed, bool weighted>
inline float finished_grad(float p, float a, float spread, float z, float d_loss) {
  if constexpr (smoothed) a = a - spread;
  if constexpr (weighted) {
    const float t = z * p;
    a = a + t;
  }
  return d_loss * a;
}

/// The same, stored in place of the probabilities.
template <bool smoothed, bool weighted>
inline void finish_grads(float spread, float z, float d_loss, std::int64_t width, float* d_logits) {
#pragma omp simd
  for (std::int64_t j = 0; j < width; ++j) {
    d_logits[j] = finished_grad<smoothed, weighted>(d_logits[j], d_logits[j], spread, z, d_loss);
  }
}

}  // namespace

void cross_entropy_max(std::int64_t width, std::int64_t rows, const float* logits,
                       std::uint32_t* largest) {
  for (std::int64_t r = 0; r < rows; ++r, logits += width) {
    std::int32_t key = lowest_key;
#pragma omp simd reduction(max : key)
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int32_t own = ordered_key(logits[j]);
      key = own > key ? own : key;
    }
    largest[r] = static_cast<std::uint32_t>(key) ^ 0x80000000U;
  }
}

void cross_entropy_sum(const VocabularyColumns& part, std::int64_t rows, const float* logits,
                       const std::uint32_t* largest, const std::int32_t* targets, float* exp_sum,
                       float* shifted_sum, std::uint32_t* target_bits, float* exps) {
  const Blocks blocks = blocks_of(part.size, part.first, part.count);
  const std::int64_t width = part.end - part.begin;
  for (std::int64_t r = 0; r < rows; ++r, logits += width) {
    const float m = number_of(largest[r]);
    shifted_sum[r] = sum_of_blocks(blocks, [logits, m](std::int64_t j) { return logits[j] - m; });
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) exps[j] = exp_of(logits[j] - m);
    exp_sum[r] = sum_of_blocks(blocks, [exps](std::int64_t j) { return exps[j]; });
    const std::int64_t target = targets[r];
    const bool here = target >= part.begin && target < part.end;
    target_bits[r] = here ? canonical_bits(logits[target - part.begin] - m) : 0U;
  }
}

void cross_entropy_loss(const LossRule& rule, int ranks, std::int64_t all_rows, std::int64_t rows,
                        const std::uint32_t* largest, const std::int32_t* targets,
                        const float* exp_sums, const float* shifted_sums,
                        const std::uint32_t* target_bits, float* loss, float* total,
                        float* log_total) {
  const auto folded_over_ranks = [ranks, all_rows](const float* sums, std::int64_t r) {
    float parts[sum_blocks] = {};
    for (int k = 0; k < ranks; ++k) parts[k] = sums[k * all_rows + r];
    return folded(parts, ranks);
  };
  for (std::int64_t r = 0; r < rows; ++r) total[r] = folded_over_ranks(exp_sums, r);
#pragma omp simd
  for (std::int64_t r = 0; r < rows; ++r) log_total[r] = log_of(total[r]);
  const float width = static_cast<float>(rule.size);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float l = log_total[r];
    float value = l - float_of(target_bits[r]);
    if (rule.smoothed) {
      const float a = folded_over_ranks(shifted_sums, r) / width;
      const float w = l - a;
      const float f = rule.keep * value;
      const float g = rule.smooth * w;
      value = f + g;
    }
    const float log_sum = number_of(largest[r]) + l;
    log_total[r] = log_sum;
    if (rule.z_weight > 0.0F) {
      const float h = log_sum * log_sum;
      const float z = rule.z_weight * h;
      value = value + z;
    }
    const bool counts = targets[r] >= 0 && targets[r] < rule.size;
    loss[r] = counts ? value : 0.0F;
  }
}

void cross_entropy_backward(const LossRule& rule, const VocabularyColumns& part, std::int64_t rows,
                            const float* d_loss, const float* logits, const std::uint32_t* largest,
                            const std::int32_t* targets, const float* total, const float* log_total,
                            float* d_logits) {
  const std::int64_t width = part.end - part.begin;
  for (std::int64_t r = 0; r < rows; ++r, logits += width, d_logits += width) {
    const std::int64_t target = targets[r];
    if (target < 0 || target >= rule.size) {
      for (std::int64_t j = 0; j < width; ++j) d_logits[j] = 0.0F;
      continue;
    }
    const float m = number_of(largest[r]), sum = total[r], d = d_loss[r];
    const float k = 2.0F * rule.z_weight;
    const float z = k * log_total[r];
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) d_logits[j] = exp_of(logits[j] - m) / sum;
    const std::int64_t own = target - part.begin;
    const bool here = own >= 0 && own < width;
    const float p = here ? d_logits[own] : 0.0F;
    if (rule.smoothed && rule.z_weight > 0.0F) {
      finish_grads<true, true>(rule.spread, z, d, width, d_logits);
      if (here) d_logits[own] = finished_grad<true, true>(p, p - rule.keep, rule.spread, z, d);
    } else if (rule.smoothed) {
      finish_grads<true, false>(rule.spread, z, d, width, d_logits);
      if (here) d_logits[own] = finished_grad<true, false>(p, p - rule.keep, rule.spread, z, d);
    } else if (rule.z_weight > 0.0F) {
      finish_grads<false, true>(rule.spread, z, d, width, d_logits);
      if (here) d_logits[own] = finished_grad<false, true>(p, p - rule.keep, rule.spread, z, d);
    } else {
      finish_grads<false, false>(rule.spread, z, d, width, d_logits);
      if (here) d_logits[own] = finished_grad<false, false>(p, p - rule.keep, rule.spread, z, d);
    }
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
