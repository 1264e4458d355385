#pragma once

#include <memory>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "verification/bench/measure/huge_buffer.hpp"
#include "verification/bench/product/product_case.hpp"

namespace zeroproof::verification::bench {

/// The gradients of a step's micro-batches, all there before the clock starts. Padding holds numbers like those of the
/// tensors: a step that counted them would have another norm.
class Leaves final : public GradSource {
 public:
  /// padded_numel: elements of every leaf.
  Leaves(const ProductCase& what, std::int64_t padded_numel);

  TensorView micro_batch_grad(std::int64_t micro_batch) override { return view(micro_batch); }

  /// [padded_numel]
  TensorView view(std::int64_t micro_batch) const;

  /// Makes the first element of the first leaf infinite, or what it was.
  void set_infinite(bool infinite);

 private:
  std::int64_t numel_;
  DType dtype_;
  std::vector<HugeBuffer<float>> wide_;            // fp32: [num_leaves] of [padded_numel]
  std::vector<HugeBuffer<std::uint16_t>> narrow_;  // bf16: the same
  std::uint32_t first_ = 0;                        ///< bits of the element that was made infinite
};

}  // namespace zeroproof::verification::bench
