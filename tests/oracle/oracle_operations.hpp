#pragma once
// The element-wise operations in one form, so that one engine can stream, shift and split all of them: up to
// four input buffers, up to four output buffers, a number that selects the scalars, and found_inf as the
// result.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cuda/host/fused_step.hpp"
#include "oracle.h"
#include "oracle_inputs.hpp"
#include "oracle_scalar_cases.hpp"
#include "oracle_twins.hpp"

namespace zeroproof::oracle {

struct Operands {
  std::array<void*, 4> in{};
  std::array<void*, 4> out{};
  std::int64_t numel = 0;

  template <class T>
  Span<const T> input(int i) const {
    return {static_cast<const T*>(in[static_cast<std::size_t>(i)]), static_cast<std::size_t>(numel)};
  }
  template <class T>
  Span<T> output(int i) const {
    return {static_cast<T*>(out[static_cast<std::size_t>(i)]), static_cast<std::size_t>(numel)};
  }
  std::size_t size() const { return static_cast<std::size_t>(numel); }
};

struct Operation {
  const char* name;
  DType in_type;
  int inputs;
  std::vector<DType> out_types;
  int aliases;  ///< out[0] may be any of the first `aliases` inputs
  int sets;     ///< numbers of scalar sets
  bool host_only;
  std::vector<Family> families;
  bool (*run)(const Twin&, const Exec&, int set, const Operands&);
  bool (*judge)(int set, const Operands&);  ///< the oracle
};

/// master, exp_avg and exp_avg_sq are updated in place, so they are copied to the outputs first.
inline void copy_state(const Operands& o) {
  for (int i = 0; i < 3; ++i) std::ranges::copy(o.input<float>(i + 1), o.output<float>(i).begin());
}

template <class T>
std::uint16_t* bits16(Span<T> view) {
  return reinterpret_cast<std::uint16_t*>(view.data());
}
template <class T>
const std::uint16_t* bits16(Span<const T> view) {
  return reinterpret_cast<const std::uint16_t*>(view.data());
}

inline bool judge_adamw(int set, const Operands& o) {
  const oracle_scalars scalars = scalars_of(set);
  copy_state(o);
  oracle_adamw(&scalars, o.input<float>(0).data(), o.output<float>(0).data(), o.output<float>(1).data(),
               o.output<float>(2).data(), o.size());
  return false;
}

/// Unscale, clip, AdamW and cast, one phase after the other.
template <DType param>
bool judge_fused(int set, const Operands& o) {
  const oracle_scalars scalars = scalars_of(set);
  std::vector<float> grad(o.size());
  copy_state(o);
  oracle_unscale(scalars.inv_scale, o.input<float>(0).data(), grad.data(), o.size());
  oracle_clip(clip_coef_of(set), grad.data(), grad.data(), o.size());
  const Span<float> master = o.output<float>(0);
  oracle_adamw(&scalars, grad.data(), master.data(), o.output<float>(1).data(), o.output<float>(2).data(),
               o.size());
  if (param == DType::fp32) std::ranges::copy(master, o.output<float>(3).begin());
  if (param == DType::bf16) oracle_cast_bf16(master.data(), bits16(o.output<bf16>(3)), o.size());
  if (param == DType::fp16) oracle_cast_fp16(master.data(), bits16(o.output<fp16>(3)), o.size());
  return false;
}

template <DType param>
bool run_fused(const Twin&, const Exec& exec, int set, const Operands& o) {
  copy_state(o);
  cuda::host::fused_update(exec, to_step_scalars(scalars_of(set)), clip_coef_of(set), o.input<float>(0),
                           o.output<float>(0), o.output<float>(1), o.output<float>(2),
                           TensorView{o.out[3], param, o.numel});
  return false;
}

template <DType param>
Operation fused_operation(const char* name) {
  const std::vector<Family> families = {Family::any_bits, Family::special, Family::near_subnormal,
                                        Family::training};
  return {name,
          DType::fp32,
          4,
          {DType::fp32, DType::fp32, DType::fp32, param},
          0,
          scalar_sets,
          true,
          families,
          run_fused<param>,
          judge_fused<param>};
}

inline std::vector<Operation> arithmetic_operations() {
  constexpr DType f = DType::fp32;
  const std::vector<Family> families = {Family::any_bits, Family::special, Family::near_subnormal,
                                        Family::training};
  return {
      {"adamw",
       f,
       4,
       {f, f, f},
       0,
       scalar_sets,
       false,
       families,
       [](const Twin& twin, const Exec& exec, int set, const Operands& o) {
         copy_state(o);
         twin.adamw_update(exec, to_step_scalars(scalars_of(set)), o.input<float>(0), o.output<float>(0),
                           o.output<float>(1), o.output<float>(2));
         return false;
       },
       judge_adamw},
      {"unscale",
       f,
       1,
       {f},
       1,
       scalar_sets,
       false,
       families,
       [](const Twin& twin, const Exec& exec, int set, const Operands& o) {
         return twin.unscale(exec, scalars_of(set).inv_scale, o.input<float>(0), o.output<float>(0));
       },
       [](int set, const Operands& o) {
         return oracle_unscale(scalars_of(set).inv_scale, o.input<float>(0).data(), o.output<float>(0).data(),
                               o.size()) != 0;
       }},
      {"clip",
       f,
       1,
       {f},
       1,
       scalar_sets,
       false,
       families,
       [](const Twin& twin, const Exec& exec, int set, const Operands& o) {
         twin.clip(exec, clip_coef_of(set), o.input<float>(0), o.output<float>(0));
         return false;
       },
       [](int set, const Operands& o) {
         oracle_clip(clip_coef_of(set), o.input<float>(0).data(), o.output<float>(0).data(), o.size());
         return false;
       }},
      {"add",
       f,
       2,
       {f},
       2,
       1,
       false,
       families,
       [](const Twin& twin, const Exec& exec, int, const Operands& o) {
         twin.add_nodes(exec, o.input<float>(0), o.input<float>(1), o.output<float>(0));
         return false;
       },
       [](int, const Operands& o) {
         oracle_add(o.input<float>(0).data(), o.input<float>(1).data(), o.output<float>(0).data(), o.size());
         return false;
       }},
  };
}

inline std::vector<Operation> cast_operations() {
  const std::vector<Family> families = {Family::every_pattern, Family::cast_ties, Family::special,
                                        Family::training};
  return {
      {"cast_bf16",
       DType::fp32,
       1,
       {DType::bf16},
       0,
       1,
       false,
       families,
       [](const Twin& twin, const Exec& exec, int, const Operands& o) {
         twin.cast_to_bf16(exec, o.input<float>(0), o.output<bf16>(0));
         return false;
       },
       [](int, const Operands& o) {
         oracle_cast_bf16(o.input<float>(0).data(), bits16(o.output<bf16>(0)), o.size());
         return false;
       }},
      {"cast_fp16",
       DType::fp32,
       1,
       {DType::fp16},
       0,
       1,
       false,
       families,
       [](const Twin& twin, const Exec& exec, int, const Operands& o) {
         twin.cast_to_fp16(exec, o.input<float>(0), o.output<fp16>(0));
         return false;
       },
       [](int, const Operands& o) {
         oracle_cast_fp16(o.input<float>(0).data(), bits16(o.output<fp16>(0)), o.size());
         return false;
       }},
  };
}

inline std::vector<Operation> widen_operations() {
  return {
      {"widen_bf16",
       DType::bf16,
       1,
       {DType::fp32},
       0,
       1,
       false,
       {Family::every_pattern},
       [](const Twin& twin, const Exec& exec, int, const Operands& o) {
         twin.widen_bf16(exec, o.input<bf16>(0), o.output<float>(0));
         return false;
       },
       [](int, const Operands& o) {
         oracle_widen_bf16(bits16(o.input<bf16>(0)), o.output<float>(0).data(), o.size());
         return false;
       }},
      {"widen_fp16",
       DType::fp16,
       1,
       {DType::fp32},
       0,
       1,
       false,
       {Family::every_pattern},
       [](const Twin& twin, const Exec& exec, int, const Operands& o) {
         twin.widen_fp16(exec, o.input<fp16>(0), o.output<float>(0));
         return false;
       },
       [](int, const Operands& o) {
         oracle_widen_fp16(bits16(o.input<fp16>(0)), o.output<float>(0).data(), o.size());
         return false;
       }},
  };
}

inline std::vector<Operation> fused_operations() {
  return {fused_operation<DType::bf16>("fused_bf16"), fused_operation<DType::fp16>("fused_fp16"),
          fused_operation<DType::fp32>("fused_fp32")};
}

inline std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const auto& group :
       {arithmetic_operations(), cast_operations(), widen_operations(), fused_operations()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace zeroproof::oracle
