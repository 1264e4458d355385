#pragma once
// Likely causes of differences, derived from the data alone.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::verification {

/// A number that a wrong result may have been multiplied or divided by.
struct NamedFactor {
  std::string name;  ///< "the number of micro-batches"
  double value = 1;
};

/// A buffer that a wrong result may have been taken from.
struct NamedView {
  std::string name;
  TensorView view;
};

/// Meaning of integers. Other integers are used only by the rule for unwritten buffers.
enum class Meaning : std::uint8_t {
  bits,   ///< or floats
  count,  ///< counters in two's complement
  limbs,  ///< of a norm (R12), 23 words
};

/// Two buffers that should have the same bits, and the known context of the call or phase that
/// wrote them.
struct HintEvidence {
  TensorView want, got;  ///< of one dtype and length
  /// `got` before the call or phase; no data if unknown. For an output: its poison
  TensorView before;
  /// inputs, and the correct values of other buffers; ignored if dtype or length differ
  std::vector<NamedView> others;
  std::vector<NamedFactor> factors;
  Meaning meaning = Meaning::bits;
  bool no_order = false;  ///< no order of operations gives these results
};

/// One line about all differing elements, their common property and their positions: "they hold the
/// expected values divided by 7, the number of micro-batches; in every element that should not be
/// 0". Empty if no rule fits all of them, or if nothing differs. A rule states a property of
/// the bits first, and a possible cause after it.
std::string hint(const HintEvidence& evidence);

}  // namespace zeroproof::verification
