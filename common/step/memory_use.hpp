#pragma once
// Bytes of one rank, by purpose.

#include <array>
#include <cstdint>
#include <string_view>

namespace zeroproof {

/// Kinds of memory of an optimizer rank. Counted are the elements times the bytes of their dtype, padding of
/// the global numbering included; not counted are red zones, alignment and scalars.
enum class MemoryClass : std::uint8_t {
  master,  ///< fp32 master weights of the shard
  state,  ///< every other fp32 buffer of the rule (R6); scales of parameters and their histories (R24)
  param_shard,  ///< the parameters this rank casts
  param_full,  ///< parameters that the model reads: all of them, or (stage 3) the units that are gathered
  grad,        ///< micro-batch gradients in the gradient dtype, of sources that run layer by layer
  grad_nodes,   ///< fp32 nodes of the canonical tree
  grad_sum,     ///< G
  comm_buffer,  ///< buffers that messages are packed into and arrive in
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
  /// The offloaded part of the state, in no class above: in host memory, including buffers of its
  /// chunks, and in a file.
  std::int64_t offloaded_host = 0;
  std::int64_t offloaded_file = 0;
};

}  // namespace zeroproof
