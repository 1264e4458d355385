#pragma once
// Bytes one rank holds in a step: what is counted, and how many there are.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/layout/shard_map.hpp"

namespace zeroproof {

struct StepShape;

/// Kinds of memory of an optimizer rank. Counted are the elements times the bytes of their dtype, padding of
/// the global numbering included; not counted are red zones, alignment and scalars.
enum class MemoryClass : std::uint8_t {
  master,       ///< fp32 master weights of the shard
  state,        ///< every other fp32 buffer of the rule (R6)
  param_shard,  ///< the parameters this rank casts
  param_full,   ///< parameters the model sees: all of them, or (stage 3) the units that are gathered
  grad,         ///< leaf gradients in the leaf dtype, of sources that run layer by layer
  grad_nodes,   ///< fp32 nodes of the canonical tree
  grad_sum,     ///< G
  wire,         ///< buffers that messages are packed into and arrive in
};
inline constexpr int num_memory_classes = 8;
std::string_view name(MemoryClass kind);

using BytesByClass = std::array<std::int64_t, num_memory_classes>;

/// Peak of every class, each by itself, and the peak of their sum.
struct MemoryUse {
  BytesByClass now{};
  BytesByClass peak{};
  std::int64_t total_now = 0;
  std::int64_t total_peak = 0;
};

/// Bytes a rank holds after a step (now) and at most (peak), as DistributedOptimizer::memory() counts them.
/// at_peak, if not null: what the peak of the sum is made of.
MemoryUse predict_memory(const StepShape& shape, BytesByClass* at_peak = nullptr);

}  // namespace zeroproof
