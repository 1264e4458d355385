#include "common/step/scaled_params.hpp"

#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

/// Rows and columns of a block; 0: all of the tensor.
std::pair<std::int64_t, std::int64_t> block_shape(const ParamScaling& scaling) {
  switch (scaling.recipe) {
    case ScaleRecipe::blockwise:
      return {scaling.blocks == ScaleBlocks::square_128 ? 128 : 1, 128};
    case ScaleRecipe::mxfp8:
      return {1, 32};
    case ScaleRecipe::current:
    case ScaleRecipe::delayed:
      break;
  }
  return {0, 0};
}

TensorBlocks blocks_of(const OptimizerSetup& setup, std::int64_t rows, std::int64_t columns) {
  // Without matrices the layout is the undistributed one, and positions are unchanged.
  const bool cut = !setup.matrices.empty();
  return {*setup.layout, cut ? setup.placement : std::vector<TensorPlacement>{}, setup.matrices,
          rows, columns};
}

}  // namespace

TensorBlocks blocks_of(const OptimizerSetup& setup) {
  const auto [rows, columns] = block_shape(setup.scaling);
  return blocks_of(setup, rows, columns);
}

TensorBlocks blocks_of(const StepSettings& settings) {
  const auto [rows, columns] = block_shape(settings.scaling);
  return {*settings.layout, {}, {}, rows, columns};
}

TensorBlocks column_blocks_of(const OptimizerSetup& setup) {
  const auto [rows, columns] = block_shape(setup.scaling);
  return blocks_of(setup, columns, rows);
}

TensorBlocks column_blocks_of(const StepSettings& settings) {
  const auto [rows, columns] = block_shape(settings.scaling);
  return {*settings.layout, {}, {}, columns, rows};
}

bool has_loaded_scales(const FullState& state, const StepSettings& settings,
                       const TensorBlocks& blocks) {
  if (state.param_scale.empty() && state.amax_history.empty()) return false;
  const auto num_blocks = static_cast<std::size_t>(blocks.num_blocks());
  const std::size_t slots = keeps_history(settings.scaling)
                                ? num_blocks * static_cast<std::size_t>(settings.scaling.history)
                                : 0;
  ZP_CHECK(
      state.param_scale.size() == num_blocks && (slots == 0 || state.amax_history.size() == slots),
      ErrorCode::invalid_argument,
      "the loaded state has " + std::to_string(state.param_scale.size()) + " scales and " +
          std::to_string(state.amax_history.size()) + " slots of histories",
      "the parameters have " + std::to_string(num_blocks) + " blocks and " + std::to_string(slots) +
          " slots (R24)",
      "pass all of them, or none for a new run");
  return true;
}

}  // namespace zeroproof
