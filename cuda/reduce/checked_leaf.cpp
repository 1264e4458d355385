#include "cuda/reduce/checked_leaf.hpp"

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

TensorView checked_leaf(const OptimizerSetup& setup, const MemorySpace& space, GradSource& leaves,
                        std::int64_t micro_batch) {
  const TensorView leaf = leaves.micro_batch_grad(micro_batch);
  ZP_CHECK(leaf.dtype == setup.grad_dtype && leaf.numel == setup.layout->padded_numel() &&
               (leaf.data != nullptr || leaf.numel == 0),
           ErrorCode::invalid_argument,
           "the gradient of micro-batch " + std::to_string(micro_batch) + " has " +
               std::to_string(leaf.numel) + " " + std::string(name(leaf.dtype)) + " elements",
           "the layout has " + std::to_string(setup.layout->padded_numel()) + " and expects " +
               std::string(name(setup.grad_dtype)),
           "pass the flat gradient buffer, padding included");
  ZP_CHECK(leaf.data == nullptr || space.is_in_space == nullptr || space.is_in_space(leaf.data),
           ErrorCode::invalid_argument,
           "the gradient of micro-batch " + std::to_string(micro_batch) +
               " is not on the device of its rank",
           "GradSource::space() returned device, so kernels read it in place",
           "copy it to that device, or return host from GradSource::space()");
  return leaf;
}

}  // namespace zeroproof::cuda
