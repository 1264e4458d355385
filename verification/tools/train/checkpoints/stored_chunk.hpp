#pragma once
// Adjacent elements of a buffer of state that is stored as codes with scales (R25), copied between
// a checkpoint and a file.

#include <cstdint>
#include <vector>

#include "common/step/state_format.hpp"
#include "reference/stored_state.hpp"

namespace zeroproof::verification {

/// Elements in memory at one time, a MiB of values: whole blocks.
inline constexpr std::int64_t most_at_once = std::int64_t{1} << 18;
static_assert(most_at_once % state_block_numel == 0);

/// Codes of a format, widened.
std::vector<float> widened_codes(StateFormat format, Span<const std::byte> bytes);

/// Whole blocks of a tensor, except for its last one. NaN until values or codes are set.
class StoredChunk {
 public:
  /// format: one with scales. numel: of the elements, 1 or more.
  StoredChunk(StateFormat format, std::int64_t numel);

  /// Values, with the scales of their blocks by R25.
  void store(Span<const float> values);
  /// The stored form: codes, widened, and the scale_inv of every block.
  void take(Span<const float> codes, Span<const float> scale_inv);

  Span<const std::byte> code_bytes() const;
  Span<const float> scale_inv() const;  ///< of every block
  std::vector<float> values() const;    ///< the input of a step

 private:
  std::vector<Piece> all_;
  reference::StoredBuffer buffer_;
};

}  // namespace zeroproof::verification
