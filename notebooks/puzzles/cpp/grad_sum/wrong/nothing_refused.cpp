// caught: for no leaves (the contract refuses it: invalid_argument)

#include <vector>

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  std::vector<float> level(leaves.size() + 1);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (std::size_t j = 0; j < leaves.size(); ++j) level[j] = leaves[j][i];
    for (std::size_t count = leaves.size(); count > 1; count = (count + 1) / 2) {
      for (std::size_t k = 0; 2 * k < count; ++k) {
        level[k] = 2 * k + 1 < count ? level[2 * k] + level[2 * k + 1] : level[2 * k];
      }
    }
    sum[i] = level[0];
  }
}

}  // namespace zeroproof::mine
