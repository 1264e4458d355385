// grad_sum: rows of sums, each half as long as the one before.

#include <vector>

#include "common/base/error.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  ZP_CHECK(!leaves.empty(), ErrorCode::invalid_argument, "there is no leaf", "a sum needs one",
           "pass one leaf or more");
  std::vector<float> level(leaves.size());
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
