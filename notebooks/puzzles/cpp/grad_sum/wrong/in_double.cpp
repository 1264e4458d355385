// caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | M = 3 leaves of

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double total = 0;
    for (const Span<const float> leaf : leaves) total += leaf[i];
    sum[i] = static_cast<float>(total);
  }
}

}  // namespace zeroproof::mine
