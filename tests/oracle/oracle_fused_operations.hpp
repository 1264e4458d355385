#pragma once
// The second fused pass of the host twins: unscale, clip, AdamW and cast, one phase after the other here.

#include "cuda/host/fused_step.hpp"
#include "oracle_cast_operations.hpp"
#include "oracle_simple_operations.hpp"

namespace zeroproof::oracle {

template <class T>
bool judge_fused(int set, const Operands& o) {
  const oracle_scalars scalars = scalars_of(set, oracle_rule_adamw);
  const oracle_adam_options options{1, 0, 0};
  std::vector<float> grad(o.size());
  copy_state(o, 3);
  oracle_unscale(scalars.inv_scale, o.input<float>(0).data(), grad.data(), o.size());
  oracle_clip(clip_coef_of(set), grad.data(), grad.data(), o.size());
  const Span<float> master = o.output<float>(0);
  oracle_adam(&options, &scalars, grad.data(), master.data(), o.output<float>(1).data(),
              o.output<float>(2).data(), nullptr, o.size());
  if constexpr (dtype_of<T> == DType::fp32) std::ranges::copy(master, o.output<float>(3).begin());
  if constexpr (dtype_of<T> == DType::bf16)
    oracle_cast_bf16(master.data(), bits_of(o.output<bf16>(3)), o.size());
  if constexpr (dtype_of<T> == DType::fp16)
    oracle_cast_fp16(master.data(), bits_of(o.output<fp16>(3)), o.size());
  return false;
}

template <class T>
Operation fused_operation() {
  constexpr DType f = DType::fp32;
  return {"fused_" + std::string(name(dtype_of<T>)),
          f,
          4,
          {f, f, f, dtype_of<T>},
          0,
          scalar_sets,
          arithmetic_families(),
          [](const Twin& twin) { return twin.is_host; },
          [](const Twin&, const Exec& exec, int set, const Operands& o) {
            copy_state(o, 3);
            cuda::host::fused_update(exec, to_step_scalars(scalars_of(set, oracle_rule_adamw)),
                                     clip_coef_of(set), o.input<float>(0), o.output<float>(0),
                                     o.output<float>(1), o.output<float>(2),
                                     TensorView{o.out[3], dtype_of<T>, o.numel});
            return false;
          },
          judge_fused<T>,
          describe_simple};
}

inline std::vector<Operation> fused_operations() {
  return {fused_operation<bf16>(), fused_operation<fp16>(), fused_operation<float>()};
}

}  // namespace zeroproof::oracle
