#pragma once
// Bitwise comparison of two buffers under the NaN rule (R9): all NaNs are one value, and a NaN against a
// number differs.

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof::verification {

/// One element that differs; the bits are zero-extended to 64.
struct Difference {
  std::int64_t index = 0;  ///< counted from the start of the views
  std::uint64_t reference_bits = 0;
  std::uint64_t candidate_bits = 0;
};

struct Comparison {
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  std::optional<Difference> first;
  std::int64_t last_index = -1;  ///< of the last element that differs
  bool same_bits = true;         ///< no differences, and NaNs have the same bits too

  /// Appends the comparison of the following elements.
  void add(const Comparison& later);
};

/// Compares elements [begin, begin + numel) of two views of one dtype.
/// Errors: invalid_argument if the dtypes differ or the range is outside a view.
Comparison compare(const TensorView& reference, const TensorView& candidate, std::int64_t begin,
                   std::int64_t numel);

/// Index of the first element in [begin, end) that is not NaN, `end` if all are NaN, as padding
/// must be.
std::int64_t first_number(const TensorView& view, std::int64_t begin, std::int64_t end);

/// The bits of one element, zero-extended.
std::uint64_t element_bits(const TensorView& view, std::int64_t index);

/// "0x3f8ccccd (1.1)": bits and, for float types, the value with enough digits to distinguish it
/// from its neighbours.
std::string show_bits(DType dtype, std::uint64_t bits);

/// True if the bits are a NaN of the dtype.
bool is_nan_bits(DType dtype, std::uint64_t bits);

}  // namespace zeroproof::verification
