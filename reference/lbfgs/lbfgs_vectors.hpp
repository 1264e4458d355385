#pragma once
// Vectors that are distributed over the ranks of a shard map, and the operations of L-BFGS on them
// (R21). All process the tensor elements of the shard; padding stays NaN.

#include <vector>

#include "common/contracts/lbfgs.hpp"

namespace zeroproof::reference {

/// This rank's shard of one vector, [shard_numel].
using ShardVector = std::vector<float>;

class ShardVectors {
 public:
  explicit ShardVectors(const LbfgsSetup& setup);

  std::int64_t shard_numel() const { return shard_numel_; }

  /// A vector of NaN.
  ShardVector make() const;

  /// This rank's shard of an undistributed vector, [padded_numel].
  ShardVector shard_of(Span<const float> full) const;

  // Elementwise, one rounding per operation. Results may be one of the operands.
  void negate(const ShardVector& a, ShardVector& result) const;  // result = -a
  void subtract(const ShardVector& a, const ShardVector& b,
                ShardVector& result) const;                                 // result = a - b
  void multiply(float a, const ShardVector& v, ShardVector& result) const;  // result = a * v
  void add(const ShardVector& a, const ShardVector& b,
           ShardVector& result) const;  // result = a + b
  void add_product(float a, const ShardVector& v,
                   ShardVector& result) const;  // p = a * v; result += p
  void subtract_product(float a, const ShardVector& v,
                        ShardVector& result) const;  // p = a * v; result -= p

  // Over the elements of all ranks, with the same bits on every rank. Collective.
  double dot(const ShardVector& a, const ShardVector& b) const;  // R19
  double sum_abs(const ShardVector& a) const;                    // R12, form one
  double max_abs(const ShardVector& a) const;  // R12, form inf: NaN if one is in a

 private:
  /// Calls body(begin, count) for blocks that cover the tensor elements of the shard.
  template <class Body>
  void for_each_part(Body body) const;

  Communicator* comm_;
  std::vector<FlatRange> ranges_;
  std::vector<Piece> pieces_;
  std::int64_t shard_numel_;
};

}  // namespace zeroproof::reference
