#pragma once
// The master of a run with stored state (R25): fp32, or bf16 when it equals the parameter.

#include "cuda/device/step/stored_blocks.cuh"

namespace zeroproof::cuda::device {

/// Cast: computes the parameter in the same pass.
template <class Cast>
struct Fp32Master {
  float* master;
  Cast cast;

  PackPhase phase(PackPhase others) const { return cast.phase(others); }

  ZP_DEVICE Pack<float> load(const LaneElements& at) const { return load_values(master, at); }

  ZP_DEVICE void store(const LaneElements& at, const Pack<float>& values) const {
    store_values(master, at, values);
    if (at.packed()) return cast.pack(at.local, at.i, values);
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k)
      if (k < at.count) cast.one(at.local + at.apart * k, at.i + at.apart * k, values.v[k]);
  }
};

/// Cast: the rounding; its parameter may be null when only the master is stored.
template <class Cast>
struct Bf16Master {
  std::uint16_t* master;
  Cast cast;

  PackPhase phase(PackPhase others) const { return cast.phase(others); }

  ZP_DEVICE Pack<float> load(const LaneElements& at) const {
    const Words<lane_numel> codes = load_halves(master, at);
    Pack<float> values;
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k) values.v[k] = float_of(codes.v[k] << 16);
    return values;
  }

  ZP_DEVICE void store(const LaneElements& at, const Pack<float>& values) const {
    if (at.packed()) {
      const HalfPack halves = cast.halves(at.i, values);
      *reinterpret_cast<HalfPack*>(master + at.local) = halves;
      if (cast.param != nullptr) *reinterpret_cast<HalfPack*>(cast.param + at.local) = halves;
      return;
    }
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k) {
      if (k >= at.count) continue;
      const std::uint16_t half = cast.half(at.i + at.apart * k, values.v[k]);
      master[at.local + at.apart * k] = half;
      if (cast.param != nullptr) cast.param[at.local + at.apart * k] = half;
    }
  }
};

/// Calls f(master) with that of a run. casts: whether to compute parameters without scales too.
/// Errors: as visit_param.
template <bool casts, class F>
void visit_master(const StepMemory& memory, const StoredMemory& stored, const StepRules& rules,
                  F&& f) {
  StepMemory target = memory;
  if (!casts) target.param = nullptr;
  if (stored.master_is_bf16) {
    auto* const master = static_cast<std::uint16_t*>(stored.master);
    if (rules.rounding == ParamRounding::stochastic) {
      using Cast = ParamCast<ParamKind::drawn_bf16>;
      return f(Bf16Master<Cast>{master, Cast::of(target, rules)});
    }
    using Cast = ParamCast<ParamKind::bf16>;
    return f(Bf16Master<Cast>{master, Cast::of(target, rules)});
  }
  auto* const master = static_cast<float*>(stored.master);
  if constexpr (casts) {
    if (!has_scales(rules.param_dtype))
      return visit_param(target, rules, [&](auto cast) {
        f(Fp32Master<decltype(cast)>{master, cast});
      });
  }
  f(Fp32Master<ParamCast<ParamKind::none>>{master, {}});
}

}  // namespace zeroproof::cuda::device
