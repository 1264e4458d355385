#include "reference/lbfgs/lbfgs_memory.hpp"

#include <cmath>
#include <utility>

namespace zeroproof::reference {

void LbfgsMemory::drop() {
  pairs_.clear();
  h_ = 1;
}

bool LbfgsMemory::remember(const ShardVectors& vectors, ShardVector s, ShardVector y) {
  const double ys = vectors.dot(y, s);
  const double yy = vectors.dot(y, y);
  if (!(ys > 1e-10 && std::isfinite(ys) && std::isfinite(yy))) return false;  // [LBFGS:curvature]
  if (static_cast<std::int64_t>(pairs_.size()) == history_size_) pairs_.pop_front();
  pairs_.push_back({std::move(s), std::move(y), 1 / ys});
  h_ = ys / yy;  // [LBFGS:scale]
  return true;
}

ShardVector LbfgsMemory::direction(const ShardVectors& vectors, const ShardVector& g) const {
  std::vector<double> al(pairs_.size());
  ShardVector q = vectors.make();
  vectors.negate(g, q);
  for (std::size_t i = pairs_.size(); i-- > 0;) {
    al[i] = vectors.dot(pairs_[i].s, q) * pairs_[i].rho;
    vectors.subtract_product(static_cast<float>(al[i]), pairs_[i].y, q);
  }
  vectors.multiply(static_cast<float>(h_), q, q);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const double be = vectors.dot(pairs_[i].y, q) * pairs_[i].rho;
    const double e = al[i] - be;
    vectors.add_product(static_cast<float>(e), pairs_[i].s, q);
  }
  return q;
}

}  // namespace zeroproof::reference
