#pragma once
// The host twins as rows of one table: which buffers they have, and how they are called.

#include <cstdint>
#include <vector>

#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::tests {

struct Buffer {
  DType dtype;
  bool is_input;
  bool is_output;
};
inline constexpr Buffer in{DType::fp32, true, false};
inline constexpr Buffer out{DType::fp32, false, true};
inline constexpr Buffer in_out{DType::fp32, true, true};
inline constexpr Buffer in_bf16{DType::bf16, true, false};
inline constexpr Buffer in_fp16{DType::fp16, true, false};
inline constexpr Buffer out_bf16{DType::bf16, false, true};
inline constexpr Buffer out_fp16{DType::fp16, false, true};

struct PositionOperation {
  using Views = std::vector<TensorView>;
  const char* name;
  bool elementwise;  ///< element i of the outputs depends on element i of the inputs alone
  std::vector<Buffer> buffers;
  /// What the call returns besides the buffers: found_inf, limbs.
  std::vector<std::uint64_t> (*run)(const Exec&, const Views&);
};

template <class T>
Span<const T> source(const TensorView& view) {
  return {static_cast<const T*>(view.data), static_cast<std::size_t>(view.numel)};
}
template <class T>
Span<T> target(const TensorView& view) {
  return {static_cast<T*>(view.data), static_cast<std::size_t>(view.numel)};
}

/// Scalars of an ordinary step with decay and a loss scale, written out: only their use is looked at here.
inline StepScalars position_scalars() {
  StepScalars s{};
  s.inv_scale = 0x1.8p-5F;
  s.beta1 = 0.9F;
  s.one_minus_beta1 = 0.1F;
  s.beta2 = 0.95F;
  s.one_minus_beta2 = 0.05F;
  s.sqrt_bias_correction2 = 0.378F;
  s.step_size = 1.1e-3F;
  s.eps = 1e-8F;
  s.lr_weight_decay = 3e-5F;
  s.has_decay = 1;
  return s;
}

inline std::vector<std::uint64_t> numbers_of(const NormLimbs& raw) {
  NormLimbs limbs = raw;
  cuda::host::grad_norm_normalise(limbs);
  std::vector<std::uint64_t> numbers(limbs.limbs.begin(), limbs.limbs.end());
  numbers.push_back(limbs.nan_count);
  numbers.push_back(limbs.inf_count);
  return numbers;
}

inline std::vector<std::uint64_t> run_fused_update(const Exec& exec, const std::vector<TensorView>& v) {
  cuda::host::fused_update(exec, position_scalars(), 0.37F, source<float>(v[0]), target<float>(v[1]),
                           target<float>(v[2]), target<float>(v[3]), v[4]);
  return {};
}

/// Streamed stores begin at a multiple of a cache line, so this kernel does look at addresses. The operation asks for
/// them from 16 MiB of parameters on; here the kernel is called by itself.
inline std::vector<std::uint64_t> run_streamed_update(const Exec& exec, const std::vector<TensorView>& v) {
  StepScalars still = position_scalars();  // weights stay as they are, among them the ties of bf16
  still.step_size = 0;
  still.has_decay = 0;
  cuda::host::simd_kernels(exec.isa).fused_update(still, 0.37F, source<float>(v[0]).data(),
                                                  target<float>(v[1]).data(), target<float>(v[2]).data(),
                                                  target<float>(v[3]).data(), v[4].data, 1, true, v[0].numel);
  return {};
}

inline std::vector<PositionOperation> position_operations() {
  namespace h = cuda::host;
  using Views = PositionOperation::Views;
  using Numbers = std::vector<std::uint64_t>;
  return {
      {"unscale",
       true,
       {in, out},
       [](const Exec& e, const Views& v) -> Numbers {
         return {h::unscale(e, 0x1.8p-5F, source<float>(v[0]), target<float>(v[1])) ? 1U : 0U};
       }},
      {"unscale in place",
       true,
       {in_out},
       [](const Exec& e, const Views& v) -> Numbers {
         return {h::unscale(e, 0x1.8p-5F, source<float>(v[0]), target<float>(v[0])) ? 1U : 0U};
       }},
      {"clip",
       true,
       {in, out},
       [](const Exec& e, const Views& v) -> Numbers {
         h::clip(e, 0.37F, source<float>(v[0]), target<float>(v[1]));
         return {};
       }},
      {"add_nodes",
       true,
       {in, in, out},
       [](const Exec& e, const Views& v) -> Numbers {
         h::add_nodes(e, source<float>(v[0]), source<float>(v[1]), target<float>(v[2]));
         return {};
       }},
      {"add_nodes into left",
       true,
       {in_out, in},
       [](const Exec& e, const Views& v) -> Numbers {
         h::add_nodes(e, source<float>(v[0]), source<float>(v[1]), target<float>(v[0]));
         return {};
       }},
      {"add_nodes into right",
       true,
       {in, in_out},
       [](const Exec& e, const Views& v) -> Numbers {
         h::add_nodes(e, source<float>(v[0]), source<float>(v[1]), target<float>(v[1]));
         return {};
       }},
      {"grad_sum of 3",
       true,
       {in, in, in, out},
       [](const Exec& e, const Views& v) -> Numbers {
         const std::vector<Span<const float>> leaves = {source<float>(v[0]), source<float>(v[1]),
                                                        source<float>(v[2])};
         h::grad_sum(e, leaves, target<float>(v[3]));
         return {};
       }},
      {"adamw_update",
       true,
       {in, in_out, in_out, in_out},
       [](const Exec& e, const Views& v) -> Numbers {
         h::adamw_update(e, position_scalars(), source<float>(v[0]), target<float>(v[1]), target<float>(v[2]),
                         target<float>(v[3]));
         return {};
       }},
      {"cast_to_bf16",
       true,
       {in, out_bf16},
       [](const Exec& e, const Views& v) -> Numbers {
         h::cast_to_bf16(e, source<float>(v[0]), target<bf16>(v[1]));
         return {};
       }},
      {"cast_to_fp16",
       true,
       {in, out_fp16},
       [](const Exec& e, const Views& v) -> Numbers {
         h::cast_to_fp16(e, source<float>(v[0]), target<fp16>(v[1]));
         return {};
       }},
      {"widen_bf16",
       true,
       {in_bf16, out},
       [](const Exec& e, const Views& v) -> Numbers {
         h::widen_bf16(e, source<bf16>(v[0]), target<float>(v[1]));
         return {};
       }},
      {"widen_fp16",
       true,
       {in_fp16, out},
       [](const Exec& e, const Views& v) -> Numbers {
         h::widen_fp16(e, source<fp16>(v[0]), target<float>(v[1]));
         return {};
       }},
      {"grad_norm_accumulate",
       false,
       {in},
       [](const Exec& e, const Views& v) -> Numbers {
         NormLimbs limbs;
         h::grad_norm_accumulate(e, source<float>(v[0]), limbs);
         return numbers_of(limbs);
       }},
      {"fused_finite_and_norm",
       false,
       {in},
       [](const Exec& e, const Views& v) -> Numbers {
         NormLimbs limbs;
         const bool found_inf = h::fused_finite_and_norm(e, 0x1.8p-5F, source<float>(v[0]), limbs);
         Numbers numbers = numbers_of(limbs);
         numbers.push_back(found_inf ? 1U : 0U);
         return numbers;
       }},
      {"fused_update fp32", true, {in, in_out, in_out, in_out, out}, run_fused_update},
      {"fused_update bf16", true, {in, in_out, in_out, in_out, out_bf16}, run_fused_update},
      {"fused_update streamed", true, {in, in_out, in_out, in_out, out_bf16}, run_streamed_update},
      {"fused_update fp16", true, {in, in_out, in_out, in_out, out_fp16}, run_fused_update},
  };
}

}  // namespace zeroproof::tests
