#include <algorithm>
#include <array>

#include "cuda/host/base/check.hpp"
#include "cuda/host/gradients/exact_sum.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/update/run_update.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda::host {
namespace {

void check(const char* op, std::size_t grad, std::size_t master, std::size_t exp_avg,
           std::size_t exp_avg_sq) {
  require_same_numel(op, "grad", grad, "master", master);
  require_same_numel(op, "grad", grad, "exp_avg", exp_avg);
  require_same_numel(op, "grad", grad, "exp_avg_sq", exp_avg_sq);
}

void merge_norms(const TrustNorms& from, TrustNorms& into) {
  merge(from.weight, into.weight);
  merge(from.update, into.update);
}

void normalise(TrustNorms& norms) {
  grad_norm_normalise(norms.weight);
  grad_norm_normalise(norms.update);
}

}  // namespace

void run_lamb_norms(const Exec& exec, const GradientChain& chain, const StepScalars& scalars,
                    const GradStretch& grad, Span<const float> master, Span<const float> exp_avg,
                    Span<const float> exp_avg_sq, TrustNorms& norms) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  TrustNorms total;
  parallel_sum(
      exec, numel(master), total,
      [&](std::int64_t begin, std::int64_t end, TrustNorms& mine) {
        constexpr std::int64_t most = 1024;  // u and the master stay in the first-level cache
        alignas(64) std::array<float, most> u;
        ExactSum weight, update;
        for (std::int64_t at = begin; at < end; at += most) {
          const std::int64_t count = std::min(most, end - at);
          const float* const p = master.data() + at;
          kernels.lamb_updates(chain, scalars, from_element(grad, at), p, exp_avg.data() + at,
                               exp_avg_sq.data() + at, u.data(), count);
          weight.add(kernels, ExactTerm::square, 1.0F, p, count);
          update.add(kernels, ExactTerm::square, 1.0F, u.data(), count);
        }
        merge_norms({weight.limbs(), update.limbs()}, mine);
      },
      merge_norms);
  normalise(total);  // as accumulate_exact()
  normalise(norms);
  merge_norms(total, norms);
}

void lamb_norms(const Exec& exec, const LambOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                Span<const float> exp_avg_sq, TrustNorms& norms) {
  check("lamb_norms", grad.size(), master.size(), exp_avg.size(), exp_avg_sq.size());
  GradientChain chain;
  if (options.maximize) chain.sign_flip = 0x80000000U;
  run_lamb_norms(exec, chain, scalars, {grad.data(), DType::fp32}, master, exp_avg, exp_avg_sq,
                 norms);
}

float lamb_trust_ratio(const StepScalars& scalars, const TrustNorms& norms) {
  const double weight = grad_norm_finish(norms.weight);
  const double update = grad_norm_finish(norms.update);
  if (weight == 0 || update == 0) return 1.0F;
  const double n = static_cast<double>(scalars.lr) * weight;
  return static_cast<float>(n / update);
}

void lamb_update(const Exec& exec, const LambOptions& options, const StepScalars& scalars,
                 float trust_ratio, Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq) {
  check("lamb_update", grad.size(), master.size(), exp_avg.size(), exp_avg_sq.size());
  run_update(exec, {UpdateRule::lamb, false, false, false, trust_ratio}, options.maximize, scalars,
             {grad.data(), master.data(), {exp_avg.data(), exp_avg_sq.data()}}, numel(grad));
}

}  // namespace zeroproof::cuda::host
