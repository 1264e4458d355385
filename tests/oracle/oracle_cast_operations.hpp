#pragma once
// The casts (R8): to nearest, with a draw, and widening.

#include "oracle_operations.hpp"

namespace zeroproof::oracle {

template <class T>
inline constexpr DType dtype_of = DType::fp32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<fp16> = DType::fp16;
template <>
inline constexpr DType dtype_of<e4m3> = DType::e4m3;
template <>
inline constexpr DType dtype_of<e5m2> = DType::e5m2;
template <>
inline constexpr DType dtype_of<e8m0> = DType::e8m0;

inline std::vector<Family> cast_families() {
  return {Family::every_pattern, Family::cast_ties, Family::special, Family::training};
}

template <class T, class Cast, class Oracle>
Operation narrow_operation(Cast Implementation::*cast, Oracle* oracle,
                           const std::string& overflow = "") {
  return {"cast_" + std::string(name(dtype_of<T>)) + overflow,
          DType::fp32,
          1,
          {dtype_of<T>},
          0,
          1,
          cast_families(),
          [=](const Implementation& implementation) { return implementation.*cast != nullptr; },
          [=](const Implementation& implementation, const Exec& exec, int, const Operands& o) {
            (implementation.*cast)(exec, o.input<float>(0), o.output<T>(0));
            return false;
          },
          [=](int, const Operands& o) {
            oracle(o.input<float>(0).data(), bits_of(o.output<T>(0)), o.size());
            return false;
          },
          [](int) { return std::string(); }};
}

template <class T, class Cast, class Oracle>
Operation widen_operation(Cast Implementation::*cast, Oracle* oracle) {
  return {"widen_" + std::string(name(dtype_of<T>)),
          dtype_of<T>,
          1,
          {DType::fp32},
          0,
          1,
          {Family::every_pattern},
          [=](const Implementation& implementation) { return implementation.*cast != nullptr; },
          [=](const Implementation& implementation, const Exec& exec, int, const Operands& o) {
            (implementation.*cast)(exec, o.input<T>(0), o.output<float>(0));
            return false;
          },
          [=](int, const Operands& o) {
            oracle(bits_of(o.input<T>(0)), o.output<float>(0).data(), o.size());
            return false;
          },
          [](int) { return std::string(); }};
}

/// First elements that are and are not multiples of 4 and of vector widths, the wrap of the
/// counter's low word (index / 4 = 2^32), the largest index, steps beyond 32 bits, seeds with
/// either half zero.
inline constexpr RoundingDraw draws[] = {
    {0, 0, 0},
    {1, 1, 1},
    {0x123456789ABCDEF0, 2, 1024},
    {0xFFFFFFFF00000000, 3, 1027},
    {0x00000000FFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFD},
    {42, 0x100000005, (1ULL << 34) - 7},
    {42, 5, (1ULL << 34) - 4},
    {UINT64_MAX, UINT64_MAX, (1ULL << 34) + 2},
    {7, 1000000, (1ULL << 35) - 18},
    {9, 17, (1ULL << 63) - 3 * (1ULL << 33) + 3},
};
inline constexpr int draw_sets = static_cast<int>(std::size(draws));

inline Operation stochastic_operation() {
  return {"cast_stochastic_bf16",
          DType::fp32,
          1,
          {DType::bf16},
          0,
          draw_sets,
          cast_families(),
          [](const Implementation& implementation) {
            return implementation.stochastic_cast_to_bf16 != nullptr;
          },
          [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
            RoundingDraw draw = draws[set];
            draw.first_index += o.first;
            implementation.stochastic_cast_to_bf16(exec, draw, o.input<float>(0),
                                                   o.output<bf16>(0));
            return false;
          },
          [](int set, const Operands& o) {
            const RoundingDraw& d = draws[set];
            oracle_cast_stochastic(d.seed, d.step, d.first_index + o.first,
                                   o.input<float>(0).data(), bits_of(o.output<bf16>(0)), o.size());
            return false;
          },
          [](int set) { return "draw " + std::to_string(set); }};
}

inline std::vector<Operation> narrow_operations() {
  return {narrow_operation<bf16>(&Implementation::cast_to_bf16, oracle_cast_bf16),
          narrow_operation<fp16>(&Implementation::cast_to_fp16, oracle_cast_fp16),
          narrow_operation<e4m3>(&Implementation::cast_to_e4m3, oracle_cast_e4m3),
          narrow_operation<e5m2>(&Implementation::cast_to_e5m2, oracle_cast_e5m2),
          narrow_operation<e4m3>(&Implementation::nonfinite_cast_to_e4m3,
                                 oracle_cast_e4m3_nonfinite, "_nonfinite"),
          narrow_operation<e5m2>(&Implementation::nonfinite_cast_to_e5m2,
                                 oracle_cast_e5m2_nonfinite, "_nonfinite"),
          narrow_operation<e8m0>(&Implementation::cast_to_e8m0, oracle_cast_e8m0),
          stochastic_operation()};
}

inline std::vector<Operation> widen_operations() {
  return {widen_operation<bf16>(&Implementation::widen_bf16, oracle_widen_bf16),
          widen_operation<fp16>(&Implementation::widen_fp16, oracle_widen_fp16),
          widen_operation<e4m3>(&Implementation::widen_e4m3, oracle_widen_e4m3),
          widen_operation<e5m2>(&Implementation::widen_e5m2, oracle_widen_e5m2),
          widen_operation<e8m0>(&Implementation::widen_e8m0, oracle_widen_e8m0)};
}

}  // namespace zeroproof::oracle
