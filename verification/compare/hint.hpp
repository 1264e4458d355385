#pragma once
// What differences look like: a likely cause, read off the data alone.

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

/// What integers stand for; of others no rule but that of unwritten buffers reads them.
enum class Meaning : std::uint8_t {
  bits,   ///< or floats
  count,  ///< integers that are counted up and down, in two's complement
  limbs,  ///< of a norm (R12), 23 words
};

/// Two buffers that should have the same bits, and what else is known of the call or phase that made them.
struct HintEvidence {
  TensorView want, got;  ///< of one dtype and length
  TensorView before;     ///< `got` before that; no data if unknown. Of an output: its poison
  std::vector<NamedView>
      others;  ///< inputs, and other buffers as they should be; those of another dtype or length
               ///< are passed over
  std::vector<NamedFactor> factors;
  Meaning meaning = Meaning::bits;
};

/// One line about all elements that differ: what they hold, and where they are: "0.142857 times what they should be:
/// divided by 7, the number of micro-batches; in every element that is not 0". Empty if no rule fits all of them, or if
/// nothing differs. A rule says what the bits are; only then what may have made them so.
std::string hint(const HintEvidence& evidence);

}  // namespace zeroproof::verification
