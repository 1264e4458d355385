#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/guarded_buffer.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::python {

/// The operands of one call as passed to a callable: with the same offset from their alignment as
/// in the call, between red zones, outputs NaN.
class CallMemory {
 public:
  /// operands: those of the call, of these shapes. text: describes the call. in_place: the first two operands share
  /// one buffer, which holds the input.
  CallMemory(const verification::Op& op, const std::vector<std::vector<std::int64_t>>& shapes,
             const std::vector<TensorView>& operands, std::string text, bool in_place);

  TensorView view(std::size_t operand) const;
  std::vector<std::size_t> shape(std::size_t operand) const {
    return {shapes_[operand].begin(), shapes_[operand].end()};
  }
  bool in_place() const { return in_place_; }

  /// Name of an input that was changed; "" if none.
  std::string edited(const std::vector<TensorView>& operands) const;

  /// Copies the results into the call.
  void copy_back(const std::vector<TensorView>& operands) const;

  /// Name of an operand with a write next to it; "" if none.
  std::string damaged() const;

  /// Writes from now on are errors.
  void seal();
  /// Name of an operand that was written since; "" if none.
  std::string written_since() const;

  /// "numel 1025, ...": describes the call.
  const std::string& text() const { return text_; }

 private:
  struct Buffer {
    GuardedBuffer memory;
    std::int64_t begin = 0;
    std::int64_t numel = 0;
  };
  bool aliased(std::size_t operand) const { return in_place_ && operand == 0; }

  const verification::Op* op_;
  std::vector<std::vector<std::int64_t>> shapes_;
  bool in_place_;
  std::string text_;
  std::vector<Buffer> buffers_;
  std::vector<Digest> sealed_;
};

}  // namespace zeroproof::python
