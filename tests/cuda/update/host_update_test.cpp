// Element-wise update rules and LAMB of the host implementation against the reference.

#include <doctest.h>

#include <algorithm>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/update/update_support.hpp"

namespace host_update_test {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: every update rule with every option") {
  const UpdateImplementations implementations{
      host::adamw_update, host::adam_update, host::sgd_update, host::sgd_ema_update,
      host::lion_update,  host::lamb_update, host::lamb_norms, host::lamb_trust_ratio};
  check_updates(implementations, every_exec());
  for (const Exec& exec : every_exec()) check_lamb_norms(implementations.lamb_norms, exec);
  check_lamb_trust_ratio(implementations.lamb_trust_ratio);
}

TEST_CASE("lamb_norms: pieces that start anywhere add up to the norms of the tensor") {
  constexpr int no_offset[5] = {};
  const UpdateBuffers b(5000, no_offset, true);
  const StepScalars c = distinct_scalars(1);
  for (const Exec& exec : every_exec()) {
    TrustNorms whole, pieces;
    const auto add = [&](std::size_t begin, std::size_t numel, TrustNorms& norms) {
      const auto part = [&](const Place<float>& all) { return all.span().subspan(begin, numel); };
      host::lamb_norms(exec, {}, c, part(b.grad), part(b.master), part(b.exp_avg),
                       part(b.exp_avg_sq), norms);
    };
    add(0, 5000, whole);
    for (std::size_t begin = 0, numel = 1; begin < 5000; begin += numel, numel = numel * 3 + 2)
      add(begin, std::min(numel, 5000 - begin), pieces);
    CHECK(normalised(pieces) == normalised(whole));
  }
}

TEST_CASE("fused_lamb_norms: the norms of the phases, also of a gradient in a 16-bit type") {
  constexpr int no_offset[5] = {};
  const UpdateBuffers b(16384 + 1024 + 37, no_offset, true);
  constexpr float clip_coef = 0.3F;
  for (const bool maximize : {false, true}) {
    OptimizerHyper hyper;
    hyper.rule = UpdateRule::lamb;
    hyper.maximize = maximize;
    hyper.clip_value = 0.02;
    const StepScalars c = distinct_scalars(1);
    for (const Exec& exec : every_exec()) {
      std::vector<bf16> half(b.grad.span().size());
      host::cast_to_bf16(exec, b.grad.span(), half);
      std::vector<float> wide(half.size()), g(half.size());
      std::vector<float> master(b.master.span().begin(), b.master.span().end()),
          exp_avg(b.exp_avg.span().begin(), b.exp_avg.span().end()),
          exp_avg_sq(b.exp_avg_sq.span().begin(), b.exp_avg_sq.span().end());
      host::widen_bf16(exec, half, wide);
      host::unscale(exec, c.inv_scale, wide, g);
      host::clip(exec, clip_coef, g, g);
      host::clip_value(exec, 0.02F, g);
      TrustNorms want, of_half, of_wide;
      host::lamb_norms(exec, {maximize}, c, g, master, exp_avg, exp_avg_sq, want);
      const host::FusedOptions options = host::fused_options(hyper);
      const host::FusedState views{master, exp_avg, exp_avg_sq};
      host::fused_lamb_norms(exec, options, c, clip_coef, {half.data(), DType::bf16}, views,
                             of_half);
      host::fused_lamb_norms(exec, options, c, clip_coef, {wide.data(), DType::fp32}, views,
                             of_wide);
      CHECK(normalised(of_half) == normalised(want));
      CHECK(normalised(of_wide) == normalised(want));
    }
  }
}

}  // namespace host_update_test
