#pragma once
// Two tensors of one name, compared element by element: bits for the verdict, distances for
// diagnosis.

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_reader.hpp"
#include "verification/cases/result.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

/// The largest difference, and the first element that has it.
struct Greatest {
  double value = 0;         ///< NaN if a NaN is compared with a number
  std::int64_t index = -1;  ///< in row-major order; -1 without differences

  /// Takes the other one if it is larger; returns whether it was. NaN is larger than every number.
  bool take(double other, std::int64_t at);
};

/// Whether two tensors can be compared.
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
  Comparison bits;               ///< of all elements (NaN rule); empty unless `compared`
  UlpHistogram ulps;             ///< of float types
  Greatest absolute;             ///< |a - b|
  Greatest relative;  ///< |a - b| / max(|a|, |b|), infinity where one of the two is infinite

  /// All bits are equal; all NaNs count as equal.
  bool equal() const { return match == TensorMatch::compared && bits.differing == 0; }
};

/// True for the float types; integers have no units in the last place.
bool has_ulps(SafeDType dtype);

/// Reads both tensors piece by piece. Null for one that its file does not have; not both.
/// Errors: as SafetensorsReader::read.
TensorDifference compare_tensors(const std::string& name, const SafetensorsReader& first,
                                 const SafeTensor* in_first, const SafetensorsReader& second,
                                 const SafeTensor* in_second);

}  // namespace zeroproof::verification
