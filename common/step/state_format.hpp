#pragma once
// Storage formats of a rule's state and of the master (R25).

#include <cstdint>

#include "common/base/dtype.hpp"
#include "common/base/error.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/state_buffers.hpp"

namespace zeroproof {

/// How a buffer of state is stored between two steps.
enum class StateFormat : std::uint8_t {
  fp32,  ///< unchanged
  bf16,  ///< rounded to nearest even
  fp16,  ///< the same, with a scale for every block
  e4m3   ///< the same
};

/// How the master is stored. bf16: the parameter is the master.
enum class MasterFormat : std::uint8_t { fp32, bf16 };

/// Elements of a tensor that share a scale: neighbours in the numbering of R13, in which tensors start at blocks.
inline constexpr std::int64_t state_block_numel = 128;
static_assert(layout_alignment % state_block_numel == 0, "a block belongs to one tensor");

constexpr DType dtype_of(StateFormat format) {
  switch (format) {
    case StateFormat::bf16:
      return DType::bf16;
    case StateFormat::fp16:
      return DType::fp16;
    case StateFormat::e4m3:
      return DType::e4m3;
    case StateFormat::fp32:
      break;
  }
  return DType::fp32;
}

/// True if it is stored as codes and scales.
constexpr bool has_scales(StateFormat format) {
  return format == StateFormat::fp16 || format == StateFormat::e4m3;
}

/// Target of the amax of a block: the largest finite value of the format.
constexpr float largest_of(StateFormat format) {
  return format == StateFormat::e4m3 ? 448.0F : 65504.0F;
}

struct StateFormats {
  StateFormat exp_avg = StateFormat::fp32;     ///< of exp_avg and momentum_buffer
  StateFormat exp_avg_sq = StateFormat::fp32;  ///< of exp_avg_sq and max_exp_avg_sq
  MasterFormat master = MasterFormat::fp32;    ///< bf16: bf16 parameters only

  constexpr StateFormat of(StateSlot slot) const {
    const bool second = slot == StateSlot::exp_avg_sq || slot == StateSlot::max_exp_avg_sq;
    return second ? exp_avg_sq : exp_avg;
  }

  /// True if everything is fp32.
  constexpr bool plain() const { return *this == StateFormats{}; }

  bool operator==(const StateFormats&) const = default;
};

}  // namespace zeroproof
