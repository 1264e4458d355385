// caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | M = 4 leaves of 5 elements | element   [2]

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = leaves[0][i];
    for (std::size_t j = 1; j < leaves.size(); ++j) sum[i] += leaves[j][i];
  }
}

}  // namespace zeroproof::mine
