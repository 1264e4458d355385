#pragma once
// The cast at the end of a step (R8): one master element, or four at once, into the parameter
// buffer.

#include "common/base/error.hpp"
#include "common/contracts/cast.hpp"
#include "cuda/device/kernels/base/philox.cuh"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/step/piece_place.cuh"
#include "cuda/device/step/step_grid.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

/// none: 8-bit parameters, computed later (scale_passes.hpp).
enum class ParamKind : std::uint8_t { fp32, bf16, fp16, drawn_bf16, none };

/// Four 16-bit parameters, the earlier ones in the lower bits.
struct alignas(8) HalfPack {
  std::uint32_t v[2];
};

/// Nearest: the bits of a 16-bit parameter.
template <ParamKind kind>
ZP_HOST_DEVICE inline std::uint32_t nearest_bits(float master) {
  return kind == ParamKind::fp16 ? fp16_bits(master) : bf16_bits(master);
}

template <ParamKind kind>
struct ParamCast {
  std::uint16_t* param;

  static ParamCast of(const StepMemory& memory, const StepRules& /*rules*/) {
    return {static_cast<std::uint16_t*>(memory.param)};
  }
  PackPhase phase(PackPhase others) const { return others.with(param); }

  ZP_DEVICE void enter(const StepMemory& /*memory*/, const StepPiece& /*piece*/) {}

  /// Stores element i of the piece, or four elements.
  ZP_DEVICE std::uint16_t half(int /*i*/, float master) const {
    return static_cast<std::uint16_t>(nearest_bits<kind>(master));
  }

  ZP_DEVICE HalfPack halves(int /*i*/, const Pack<float>& master) const {
    HalfPack out;
    ZP_UNROLL
    for (int k = 0; k < 2; ++k) {
      out.v[k] =
          nearest_bits<kind>(master.v[2 * k]) | (nearest_bits<kind>(master.v[2 * k + 1]) << 16);
    }
    return out;
  }

  ZP_DEVICE void one(std::int64_t local, int i, float master) const {
    param[local] = half(i, master);
  }

  ZP_DEVICE void pack(std::int64_t local, int i, const Pack<float>& master) const {
    *reinterpret_cast<HalfPack*>(param + local) = halves(i, master);
  }
};

template <>
struct ParamCast<ParamKind::fp32> {
  float* param;

  static ParamCast of(const StepMemory& memory, const StepRules& /*rules*/) {
    return {static_cast<float*>(memory.param)};
  }
  PackPhase phase(PackPhase others) const { return others.with(param); }

  ZP_DEVICE void enter(const StepMemory& /*memory*/, const StepPiece& /*piece*/) {}
  ZP_DEVICE void one(std::int64_t local, int /*i*/, float master) const { param[local] = master; }
  ZP_DEVICE void pack(std::int64_t local, int /*i*/, const Pack<float>& master) const {
    store_pack(param + local, master);
  }
};

template <>
struct ParamCast<ParamKind::none> {
  PackPhase phase(PackPhase others) const { return others; }

  ZP_DEVICE void enter(const StepMemory& /*memory*/, const StepPiece& /*piece*/) {}
  ZP_DEVICE void one(std::int64_t /*local*/, int /*i*/, float /*master*/) const {}
  ZP_DEVICE void pack(std::int64_t /*local*/, int /*i*/, const Pack<float>& /*master*/) const {}
};

/// Stochastic rounding. The draws use the count of applied updates, including this one.
template <>
struct ParamCast<ParamKind::drawn_bf16> {
  std::uint16_t* param;
  std::uint64_t seed;
  std::uint32_t t = 0;
  PiecePlace place{};

  static ParamCast of(const StepMemory& memory, const StepRules& rules) {
    return {static_cast<std::uint16_t*>(memory.param), rules.seed};
  }
  PackPhase phase(PackPhase others) const { return others.with(param); }

  ZP_DEVICE void enter(const StepMemory& memory, const StepPiece& piece) {
    t = static_cast<std::uint32_t>(memory.tensor_steps != nullptr
                                       ? memory.tensor_steps[piece.tensor]
                                       : memory.state->applied_steps);
    place = PiecePlace(piece);
  }

  ZP_DEVICE PhiloxWords words(std::uint64_t index) const {
    return philox_words(seed, stochastic_rounding_stream, t, index / 4);
  }

  ZP_DEVICE std::uint32_t word(std::uint64_t index) const {
    const PhiloxWords r = words(index);
    return select_word(static_cast<std::uint32_t>(index % 4), r.w[0], r.w[1], r.w[2], r.w[3]);
  }

  ZP_DEVICE std::uint16_t half(int i, float master) const {
    return stochastic_bf16_bits(master, word(place.at(i).index));
  }

  /// Four consecutive elements use one block of random words, or two; up to four if a row ends
  /// among them.
  ZP_DEVICE HalfPack halves(int i, const Pack<float>& master) const {
    const PiecePlace::At at = place.at(i);
    std::uint32_t r[step_pack_numel];
    if (at.left >= step_pack_numel) {
      const std::uint32_t skip = static_cast<std::uint32_t>(at.index % 4);
      const PhiloxWords low = words(at.index);
      PhiloxWords high{};
      if (skip != 0U) high = words(at.index + step_pack_numel);
      r[0] = select_word(skip, low.w[0], low.w[1], low.w[2], low.w[3]);
      r[1] = select_word(skip, low.w[1], low.w[2], low.w[3], high.w[0]);
      r[2] = select_word(skip, low.w[2], low.w[3], high.w[0], high.w[1]);
      r[3] = select_word(skip, low.w[3], high.w[0], high.w[1], high.w[2]);
    } else {
      ZP_UNROLL
      for (int k = 0; k < step_pack_numel; ++k) r[k] = word(place.at(i + k).index);
    }
    HalfPack out;
    ZP_UNROLL
    for (int k = 0; k < 2; ++k) {
      const std::uint32_t low = stochastic_bf16_bits(master.v[2 * k], r[2 * k]);
      const std::uint32_t high = stochastic_bf16_bits(master.v[2 * k + 1], r[2 * k + 1]);
      out.v[k] = low | (high << 16);
    }
    return out;
  }

  ZP_DEVICE void one(std::int64_t local, int i, float master) const {
    param[local] = half(i, master);
  }

  ZP_DEVICE void pack(std::int64_t local, int i, const Pack<float>& master) const {
    *reinterpret_cast<HalfPack*>(param + local) = halves(i, master);
  }
};

/// Calls f(ParamCast<kind>) with the cast of a run. Errors: invalid_argument if parameters have no
/// such format, or for stochastic rounding to another format than bf16.
template <class F>
void visit_param(const StepMemory& memory, const StepRules& rules, F&& f) {
  const DType dtype = rules.param_dtype;
  ZP_CHECK(is_param_format(dtype), ErrorCode::invalid_argument,
           "the parameter dtype is " + std::string(name(dtype)), "no cast has this target",
           "use fp32, bf16 or fp16");
  if (rules.rounding == ParamRounding::stochastic) {
    ZP_CHECK(dtype == DType::bf16, ErrorCode::invalid_argument,
             "stochastic rounding with parameters in " + std::string(name(dtype)),
             "R8 defines it for bf16 only", "use bf16, or round to nearest");
    return f(ParamCast<ParamKind::drawn_bf16>::of(memory, rules));
  }
  if (dtype == DType::bf16) return f(ParamCast<ParamKind::bf16>::of(memory, rules));
  if (dtype == DType::fp16) return f(ParamCast<ParamKind::fp16>::of(memory, rules));
  return f(ParamCast<ParamKind::fp32>::of(memory, rules));
}

}  // namespace zeroproof::cuda::device
