#pragma once
// The split of a master, tensors in blocks, and scales (R8, R22), in the form of the element-wise
// engine. The expected results are the reference's: the C oracle does not implement them,
// tests/reference/formats has them by hand.

#include <vector>

#include "common/base/philox.hpp"
#include "oracle_cast_operations.hpp"

namespace zeroproof::oracle {

inline Operation split_operation() {
  return {
      "split_master",
      DType::fp32,
      1,
      {DType::bf16, DType::u16},
      0,
      2,
      cast_families(),
      [](const Implementation& implementation) { return implementation.split_master != nullptr; },
      [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
        implementation.split_master(exec, static_cast<SplitRule>(set), o.input<float>(0),
                                    o.output<bf16>(0), o.output<std::uint16_t>(1));
        return false;
      },
      {},
      [](int set) { return set == 0 ? "nearest" : "transformer_engine"; }};
}

inline Operation join_operation() {
  return {
      "join_master",
      DType::u16,
      2,
      {DType::fp32},
      0,
      2,
      {Family::any_bits, Family::special},
      [](const Implementation& implementation) { return implementation.join_master != nullptr; },
      [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
        implementation.join_master(exec, static_cast<SplitRule>(set), o.input<bf16>(0),
                                   o.input<std::uint16_t>(1), o.output<float>(0));
        return false;
      },
      {},
      [](int set) { return set == 0 ? "nearest" : "transformer_engine"; }};
}

/// A tensor of `columns` columns, of which a call has the elements from `first` on.
struct BlockSet {
  std::int64_t columns, first, block_rows, block_columns;
  QuantizedValue value;
  Overflow overflow;
};
inline constexpr BlockSet block_sets[] = {
    {300, 0, 1, 128, QuantizedValue::direct, Overflow::saturate},
    {150, 77, 128, 128, QuantizedValue::direct, Overflow::nonfinite},
    {70, 33, 1, 32, QuantizedValue::through_bf16, Overflow::saturate},
    {67, 0, 32, 1, QuantizedValue::direct, Overflow::saturate},
    {1, 5, 1, 32, QuantizedValue::through_bf16, Overflow::nonfinite},
    {1000, 1, std::int64_t{1} << 40, std::int64_t{1} << 40, QuantizedValue::direct,
     Overflow::saturate}};
inline constexpr int num_block_sets = static_cast<int>(std::size(block_sets));

inline BlockGrid block_grid(int set, std::int64_t numel) {
  const BlockSet& s = block_sets[set];
  return {(s.first + numel) / s.columns + 1, s.columns, s.block_rows, s.block_columns};
}

/// Around 1 and large values, so that weights and gradients reach all codes of a format; one in
/// eight has any bits.
inline std::vector<float> block_scales_of(int set, const BlockGrid& grid) {
  const Philox philox(77, static_cast<std::uint32_t>(set));
  std::vector<float> scale(grid.num_blocks());
  for (std::size_t b = 0; b < scale.size(); ++b) {
    const std::uint32_t word = philox.word(2 * b);
    const std::uint32_t exponent = 120U + philox.word(2 * b + 1) % 30U;
    scale[b] =
        from_bits(word % 8U == 0 ? philox.word(2 * b + 1) : exponent << 23 | (word & 0x7FFFFFU));
  }
  return scale;
}

template <class T, class Implementations>
Operation quantize_operation(Implementations Implementation::*implementations) {
  return {"block_quantize_" + std::string(name(dtype_of<T>)),
          DType::fp32,
          1,
          {dtype_of<T>},
          0,
          num_block_sets,
          {Family::every_pattern, Family::cast_ties, Family::special, Family::training},
          [=](const Implementation& implementation) {
            return implementation.*implementations != nullptr;
          },
          [=](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
            const BlockSet& s = block_sets[set];
            const BlockGrid grid = block_grid(set, o.numel);
            const std::vector<float> scale = block_scales_of(set, grid);
            (implementation.*implementations)(exec, {grid, s.value, s.overflow}, s.first,
                                              o.input<float>(0), Span<const float>(scale),
                                              o.output<T>(0));
            return false;
          },
          {},
          [](int set) { return "tensor " + std::to_string(set); }};
}

template <class T, class Implementations>
Operation dequantize_operation(Implementations Implementation::*implementations) {
  return {"block_dequantize_" + std::string(name(dtype_of<T>)),
          dtype_of<T>,
          1,
          {DType::fp32},
          0,
          num_block_sets,
          {Family::every_pattern},
          [=](const Implementation& implementation) {
            return implementation.*implementations != nullptr;
          },
          [=](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
            const BlockGrid grid = block_grid(set, o.numel);
            const std::vector<float> scale = block_scales_of(set, grid);
            (implementation.*implementations)(exec, grid, block_sets[set].first, o.input<T>(0),
                                              Span<const float>(scale), o.output<float>(0));
            return false;
          },
          {},
          [](int set) { return "tensor " + std::to_string(set); }};
}

inline constexpr CurrentScaling current_sets[] = {{Fp8::e4m3, 0, false},
                                                  {Fp8::e5m2, 0, false},
                                                  {Fp8::e4m3, 0, true},
                                                  {Fp8::e5m2, 1e-3F, true},
                                                  {Fp8::e4m3, 0.5F, false}};

inline Operation current_operation() {
  return {
      "current_scales",
      DType::u32,
      1,
      {DType::fp32, DType::fp32},
      0,
      static_cast<int>(std::size(current_sets)),
      {Family::every_pattern, Family::special, Family::near_subnormal, Family::training},
      [](const Implementation& implementation) { return implementation.current_scales != nullptr; },
      [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
        implementation.current_scales(exec, current_sets[set], o.input<std::uint32_t>(0),
                                      o.output<float>(0), o.output<float>(1));
        return false;
      },
      {},
      [](int set) { return "settings " + std::to_string(set); }};
}

inline Operation mxfp8_operation() {
  return {
      "mxfp8_scales",
      DType::u32,
      1,
      {DType::e8m0, DType::fp32},
      0,
      2,
      {Family::every_pattern, Family::special, Family::near_subnormal, Family::training},
      [](const Implementation& implementation) { return implementation.mxfp8_scales != nullptr; },
      [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
        implementation.mxfp8_scales(exec, static_cast<Fp8>(set), o.input<std::uint32_t>(0),
                                    o.output<e8m0>(0), o.output<float>(1));
        return false;
      },
      {},
      [](int set) { return set == 0 ? "e4m3" : "e5m2"; }};
}

inline std::vector<Operation> format_operations() {
  std::vector<Operation> all = {split_operation(),
                                join_operation(),
                                quantize_operation<e4m3>(&Implementation::block_quantize_e4m3),
                                quantize_operation<e5m2>(&Implementation::block_quantize_e5m2),
                                dequantize_operation<e4m3>(&Implementation::block_dequantize_e4m3),
                                dequantize_operation<e5m2>(&Implementation::block_dequantize_e5m2),
                                current_operation(),
                                mxfp8_operation()};
  for (Operation& op : all) {
    op.judge = [run = op.run, reference = reference_implementation()](int set, const Operands& o) {
      return run(reference, reference.exec, set, o);
    };
  }
  return all;
}

}  // namespace zeroproof::oracle
