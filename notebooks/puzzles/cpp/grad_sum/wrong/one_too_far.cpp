// caught: sum was written outside of its 1 elements

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  for (std::size_t i = 0; i <= sum.size(); ++i) sum.data()[i] = leaves[0][i];
}

}  // namespace zeroproof::mine
