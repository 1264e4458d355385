#pragma once
// Scales of 8-bit parameters (R24).

#include <cstdint>
#include <string_view>

#include "common/base/dtype.hpp"
#include "common/contracts/block_scale.hpp"
#include "common/contracts/scale_recipe.hpp"

namespace zeroproof {

/// Source of the scales, and their granularity: the whole tensor (current, delayed), or every block
/// of it.
enum class ScaleRecipe : std::uint8_t { current, delayed, blockwise, mxfp8 };

/// Blocks of the recipe blockwise.
enum class ScaleBlocks : std::uint8_t { square_128, row_128 };

/// Masters at the start of a run: the loaded values, or the values of their codes.
enum class InitialMaster : std::uint8_t { high_precision, dequantised };

/// Settings of parameters in e4m3 or e5m2; unused for others. Members that the recipe does not read
/// are ignored.
struct ParamScaling {
  ScaleRecipe recipe = ScaleRecipe::current;
  QuantizedValue value = QuantizedValue::direct;
  InitialMaster initial_master = InitialMaster::high_precision;
  bool columnwise =
      false;          ///< a second copy of the gathered parameters, for products along columns
  float epsilon = 0;  ///< current, blockwise
  bool power_of_two = false;                     ///< current, blockwise
  ScaleBlocks blocks = ScaleBlocks::square_128;  ///< blockwise
  int margin = 0;                                ///< delayed, 0..64
  std::int64_t history = 1024;                   ///< delayed, 1..1024 slots
  AmaxChoice choice = AmaxChoice::max;           ///< delayed
  EmptyAmax empty = EmptyAmax::keep;             ///< delayed
};

/// The settings of a recipe given by name only: blockwise rounds its scales to powers of two.
constexpr ParamScaling scaling_of(ScaleRecipe recipe) {
  ParamScaling scaling;
  scaling.recipe = recipe;
  scaling.power_of_two = recipe == ScaleRecipe::blockwise;
  return scaling;
}

/// True for the parameter formats that have scales.
constexpr bool has_scales(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

/// The format of parameters for which has_scales() is true.
constexpr Fp8 fp8_of(DType dtype) { return dtype == DType::e5m2 ? Fp8::e5m2 : Fp8::e4m3; }

constexpr bool keeps_history(const ParamScaling& scaling) {
  return scaling.recipe == ScaleRecipe::delayed;
}

/// Blocks of one row and several columns.
constexpr bool has_row_blocks(const ParamScaling& scaling) {
  return scaling.recipe == ScaleRecipe::mxfp8 ||
         (scaling.recipe == ScaleRecipe::blockwise && scaling.blocks == ScaleBlocks::row_128);
}

/// True if the column-wise copy has codes and scales of its own; otherwise it is the same codes in
/// another order.
constexpr bool has_own_columns(const ParamScaling& scaling) {
  return scaling.columnwise && has_row_blocks(scaling);
}

/// Options of R22's recipes. current_of: recipes current and blockwise.
constexpr CurrentScaling current_of(const ParamScaling& scaling, DType dtype) {
  return {fp8_of(dtype), scaling.epsilon, scaling.power_of_two};
}
constexpr DelayedScaling delayed_of(const ParamScaling& scaling, DType dtype) {
  return {fp8_of(dtype), scaling.margin, scaling.history, scaling.choice, scaling.empty};
}

/// Names in configuration files and reports, in the order of the enumerators.
Span<const std::string_view> names_of(ScaleRecipe);
Span<const std::string_view> names_of(ScaleBlocks);
Span<const std::string_view> names_of(InitialMaster);
Span<const std::string_view> names_of(QuantizedValue);
Span<const std::string_view> names_of(AmaxChoice);
Span<const std::string_view> names_of(EmptyAmax);

}  // namespace zeroproof
