#pragma once
// Two tensors of one name, compared element by element: bits for a verdict, distances for whoever looks for the cause.

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_reader.hpp"
#include "verification/cases/result.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

/// The largest of some differences, and the first element that has it.
struct Greatest {
  double value = 0;         ///< NaN as soon as a NaN stands against a number
  std::int64_t index = -1;  ///< in row-major order; -1 while nothing differs

  /// Takes the other one if it is larger, and says whether it was. A NaN is larger than everything.
  bool take(double other, std::int64_t at);
};

/// What of two tensors could be compared.
enum class TensorMatch : std::uint8_t {
  compared,
  only_first,
  only_second,
  other_dtype,
  other_shape
};

struct TensorDifference {
  std::string name;
  TensorMatch match = TensorMatch::compared;
  SafeTensorSpec first, second;  ///< as the files have them; one is empty if it is missing there
  Comparison bits;    ///< of all elements (NaN rule); nothing is counted unless `compared`
  UlpHistogram ulps;  ///< of float types
  Greatest absolute;  ///< |a - b|
  Greatest relative;  ///< |a - b| / max(|a|, |b|), infinity where one of the two is infinite

  /// All bits are equal, all NaNs being one value.
  bool equal() const { return match == TensorMatch::compared && bits.differing == 0; }
};

/// True for the float types; whole numbers have no last place.
bool has_ulps(SafeDType dtype);

/// Reads both tensors piece by piece. Null for one that its file does not have; not both.
/// Errors: as SafetensorsReader::read.
TensorDifference compare_tensors(const std::string& name, const SafetensorsReader& first,
                                 const SafeTensor* in_first, const SafetensorsReader& second,
                                 const SafeTensor* in_second);

}  // namespace zeroproof::verification
