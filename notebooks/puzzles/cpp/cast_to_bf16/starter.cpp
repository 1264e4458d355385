// fp32 to bf16 in C++, ties to even, for every case of op/cast_to_bf16 (lesson 3; rule R8).

#include "common/contracts/cast.hpp"

namespace zeroproof::mine {

/// One rounding per element, to nearest, ties to even. Subnormal numbers are kept, too large ones
/// become infinity, and NaN stays NaN (any). bf16 is the upper half of an fp32 number; its bits are
/// target[i].bits.
void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  // TODO: round the lower half away
}

}  // namespace zeroproof::mine
