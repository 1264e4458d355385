#pragma once
// The buffers of one call of an operation, and the generation of their contents.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/base/philox.hpp"
#include "common/base/span.hpp"

namespace zeroproof::verification {

struct Op;

/// Kinds of input values. Element i depends on (seed, operand, fill, i) only.
enum class Fill : std::uint8_t {
  /// small integers: sums are exact in any order, so that only wrong terms are detected, not the
  /// order
  exact_sum,
  wide,       ///< every exponent of a normal number
  ties,       ///< midpoints of the narrow formats, and their neighbours
  subnormal,  ///< values whose products and squares are around the subnormal range
  special,    ///< infinities, NaN, signed zeros, largest and smallest, 1e20, 1e-25
  training,   ///< as in training: small gradients, seeded moments
  zero,       ///< all +0
  patterns,   ///< bit patterns in turn; all of them if the format is narrow and the buffer long
  sweep,      ///< settings drawn over their legal ranges and a little beyond
};
inline constexpr int num_fills = 9;
std::string_view name(Fill fill);
/// Errors: none; empty if the text is no fill.
std::optional<Fill> parse_fill(const std::string& text);

enum class Access : std::uint8_t { in, out, in_out };

/// Meaning of the numbers of a buffer. `given`: written by the operation's own generator.
enum class Content : std::uint8_t { value, weight, moment, second_moment, given };

struct Operand {
  std::string name;
  DType dtype = DType::fp32;
  Access access = Access::in;
  Content content = Content::value;
  std::int64_t per_element =
      1;  ///< values for every element of the call; 0: `count` values whatever its size
  std::int64_t count = 0;
  bool cast = false;  ///< bf16: the numbers of a fill, cast (R8), instead of bit patterns in turn
  /// Settings of the call that are its sizes, {"rows", "columns"}, in place of per_element and count; per_element is 0.
  std::vector<std::string> extents = {};

  /// The format of a value in a report: an amax is stored as the bits of its fp32 number, which
  /// compare as integers.
  DType shown_format() const {
    return dtype == DType::u32 && name.ends_with("amax") ? DType::fp32 : dtype;
  }
};

/// One point of the sweep.
struct CallShape {
  Fill fill = Fill::training;
  std::int64_t numel = 0;
  int offset =
      0;  ///< offset of buffers from their alignment: 0 none, 1 one element each, 2 all different
  int variant = 0;
  int num_threads = 1;
  std::uint64_t seed = 1;
  std::uint64_t first_index = 0;  ///< of element 0, in the numbering that fills use
};

/// Buffers with poisoned surroundings inside red zones.
class OpCall {
 public:
  /// Inputs filled, outputs poisoned.
  OpCall(const Op& op, const CallShape& shape);

  /// The same inputs in new memory; outputs poisoned.
  OpCall fresh() const;
  /// The same for another variant, whose operands have the same sizes.
  OpCall fresh(int variant) const;
  /// The same inputs and results in new memory.
  OpCall copy() const;

  const CallShape& shape() const { return shape_; }
  std::int64_t numel() const { return shape_.numel; }
  int variant() const { return shape_.variant; }

  /// Words of element `index` of this call for an operand; four more for every `block`.
  PhiloxBlock words(std::size_t operand, std::int64_t index, std::uint32_t block = 0) const;

  template <class T>
  Span<T> get(std::size_t operand) const {
    const TensorView v = view(operand);
    return {static_cast<T*>(v.data), static_cast<std::size_t>(v.numel)};
  }
  template <class T>
  Span<const T> in(std::size_t operand) const {
    return get<T>(operand);
  }
  TensorView view(std::size_t operand) const;

  /// Describes illegal writes (inputs, surroundings of buffers, red zones); "" if there are none.
  /// `pristine` is the call this one was made from.
  std::string damage(const OpCall& pristine) const;

  Exec exec;
  std::vector<OpCall>
      earlier;  ///< the candidate's calls of Op::earlier; empty if it does not support them

 private:
  OpCall() = default;
  void allocate();
  void fill_operand(std::size_t operand);

  const Op* op_ = nullptr;
  CallShape shape_;
  struct Buffer {
    GuardedBuffer memory;
    std::int64_t begin = 0;
    std::int64_t numel = 0;
  };
  std::vector<Buffer> buffers_;
};

/// The value of a fill for an operand with `content`; see Fill.
float fill_value(Fill fill, Content content, std::uint64_t index, const PhiloxBlock& words);

}  // namespace zeroproof::verification
