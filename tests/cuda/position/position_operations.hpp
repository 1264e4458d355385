#pragma once
// Rows of the position test: everything before and after the update.

#include <limits>
#include <stdexcept>
#include <string>

#include "cuda/host/fold_plan.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"
#include "tests/cuda/position/position_table.hpp"

namespace zeroproof::tests {

inline constexpr float position_inv_scale = 0x1.8p-5F;

inline std::vector<PositionOperation> gradient_operations() {
  namespace h = cuda::host;
  return {
      {"unscale",
       true,
       {in, out},
       [](const Call& c) -> Numbers {
         return {h::unscale(c.exec, position_inv_scale, c.view(0), c.view(1)) ? 1U : 0U};
       }},
      {"unscale in place",
       true,
       {in_out},
       [](const Call& c) -> Numbers {
         return {h::unscale(c.exec, position_inv_scale, c.view(0), c.view(0)) ? 1U : 0U};
       }},
      elementwise("clip", {in, out},
                  [](const Call& c) { h::clip(c.exec, 0.37F, c.view(0), c.view(1)); }),
      elementwise("clip in place", {in_out},
                  [](const Call& c) { h::clip(c.exec, 0.37F, c.view(0), c.view(0)); }),
      elementwise("clip_value", {in_out},
                  [](const Call& c) { h::clip_value(c.exec, 0.25F, c.view(0)); }),
      elementwise("add_nodes", {in, in, out},
                  [](const Call& c) { h::add_nodes(c.exec, c.view(0), c.view(1), c.view(2)); }),
      elementwise("add_nodes into left", {in_out, in},
                  [](const Call& c) { h::add_nodes(c.exec, c.view(0), c.view(1), c.view(0)); }),
      elementwise("add_nodes into right", {in, in_out},
                  [](const Call& c) { h::add_nodes(c.exec, c.view(0), c.view(1), c.view(1)); }),
      elementwise("grad_sum of 1", {in, out},
                  [](const Call& c) {
                    const Span<const float> leaf = c.view(0);
                    h::grad_sum(c.exec, {&leaf, 1}, c.view(1));
                  }),
      elementwise("grad_sum of 3", {in, in, in, out},
                  [](const Call& c) {
                    const std::vector<Span<const float>> leaves = {c.view(0), c.view(1), c.view(2)};
                    h::grad_sum(c.exec, leaves, c.view(3));
                  }),
  };
}

template <class T>
PositionOperation narrow(std::string name, DType dtype,
                         void (*cast)(const Exec&, Span<const float>, Span<T>)) {
  return elementwise(std::move(name), {in, out_of(dtype)},
                     [cast](const Call& c) { cast(c.exec, c.view(0), c.view<T>(1)); });
}
template <class T>
PositionOperation widen(std::string name, DType dtype,
                        void (*cast)(const Exec&, Span<const T>, Span<float>)) {
  return elementwise(std::move(name), {in_of(dtype), out},
                     [cast](const Call& c) { cast(c.exec, c.view<const T>(0), c.view(1)); });
}

inline std::vector<PositionOperation> cast_operations() {
  namespace h = cuda::host;
  return {
      narrow<bf16>("cast_to_bf16", DType::bf16, h::cast_to_bf16),
      narrow<fp16>("cast_to_fp16", DType::fp16, h::cast_to_fp16),
      narrow<e4m3>("cast_to_e4m3", DType::e4m3, h::cast_to_e4m3),
      narrow<e5m2>("cast_to_e5m2", DType::e5m2, h::cast_to_e5m2),
      elementwise("stochastic_cast_to_bf16", {in, out_of(DType::bf16)},
                  [](const Call& c) {
                    h::stochastic_cast_to_bf16(c.exec, {9, 4, c.first}, c.view(0), c.view<bf16>(1));
                  }),
      elementwise("cast_to_bf16 streamed", {in, out_of(DType::bf16)},
                  [](const Call& c) {
                    h::simd_kernels(c.exec.isa)
                        .to_bf16_streamed(c.view(0).data(), c.view<std::uint16_t>(1).data(),
                                          c.numel());
                  }),
      widen<bf16>("widen_bf16", DType::bf16, h::widen_bf16),
      widen<fp16>("widen_fp16", DType::fp16, h::widen_fp16),
      widen<e4m3>("widen_e4m3", DType::e4m3, h::widen_e4m3),
      widen<e5m2>("widen_e5m2", DType::e5m2, h::widen_e5m2),
  };
}

/// A form of the norm whose state is limbs.
template <class Accumulate>
PositionOperation limb_form(std::string name, Accumulate accumulate) {
  return sum(std::move(name), [accumulate](const Call& c) {
    NormLimbs limbs;
    accumulate(c.exec, c.view<const float>(0), limbs);
    return numbers_of(limbs);
  });
}

/// A result that one element decides, with that element first, in the middle and last. A miss at
/// every offset would compare equal, so the answer is known here. The element is restored
/// afterwards: the buffer must not change.
template <class Answer>
PositionOperation decided_by_one(const std::string& name, float element, std::uint64_t decided,
                                 Answer answer) {
  return {name, false, {in_out}, [=](const Call& c) {
            for (const std::int64_t at : {std::int64_t{0}, c.numel() / 2, c.numel() - 1}) {
              if (c.numel() == 0) break;
              float& place = c.view(0)[at];
              const float before = std::exchange(place, element);
              const std::uint64_t found = answer(c);
              place = before;
              if (found != decided)
                throw std::logic_error(name + " misses element " + std::to_string(at));
            }
            return Numbers{answer(c)};
          }};
}

inline std::vector<PositionOperation> norm_operations() {
  namespace h = cuda::host;
  constexpr float inf = std::numeric_limits<float>::infinity(), scale = position_inv_scale;
  using View = Span<const float>;
  return {
      limb_form("grad_norm_accumulate", h::grad_norm_accumulate),
      limb_form("grad_norm_exact_accumulate", h::grad_norm_exact_accumulate),
      limb_form("grad_abs_accumulate", h::grad_abs_accumulate),
      limb_form(
          "fused_finite_and_norm",
          [](const Exec& e, View g, NormLimbs& l) { h::fused_finite_and_norm(e, scale, g, l); }),
      limb_form("fused_fold_finite_and_norm",
                [](const Exec& e, View g, NormLimbs& l) {
                  const h::FoldPlan itself({{0, 0}});
                  const h::GradStretch from{g.data(), DType::fp32};
                  std::vector<float> sum(g.size());
                  h::fused_fold_finite_and_norm(e, scale, itself, {&from, 1}, sum, true, l);
                }),
      limb_form("fused_norm_exact",
                [](const Exec& e, View g, NormLimbs& l) { h::fused_norm_exact(e, scale, g, l); }),
      limb_form("fused_norm_abs",
                [](const Exec& e, View g, NormLimbs& l) { h::fused_norm_abs(e, scale, g, l); }),
      decided_by_one("grad_max_accumulate", inf, 0x7F800000U,
                     [](const Call& c) {
                       std::uint32_t amax = 0;
                       h::grad_max_accumulate(c.exec, c.view(0), amax);
                       return std::uint64_t{amax};
                     }),
      decided_by_one("grad_stats", inf, 1,
                     [](const Call& c) {
                       const std::vector<GradSegment> all = {{0, c.numel(), 0}};
                       std::vector<GradStats> stats(1);
                       h::grad_stats(c.exec, c.view<const float>(0), all, stats);
                       return stats.front().num_nonfinite;
                     }),
      decided_by_one("fused_norm_max", inf, 0x7F800000U,
                     [](const Call& c) {
                       std::uint32_t amax = 0;
                       h::fused_norm_max(c.exec, scale, c.view(0), amax);
                       return std::uint64_t{amax};
                     }),
      decided_by_one("fused_finite", -inf, 1,
                     [](const Call& c) {
                       return std::uint64_t{h::fused_finite(c.exec, scale, c.view(0)) ? 1U : 0U};
                     }),
      decided_by_one("fused_finite_and_norm, found_inf", -inf, 1,
                     [](const Call& c) {
                       NormLimbs limbs;
                       return std::uint64_t{
                           h::fused_finite_and_norm(c.exec, scale, c.view(0), limbs) ? 1U : 0U};
                     }),
  };
}

}  // namespace zeroproof::tests
