#pragma once

#include <cstdint>
#include <vector>

#include "common/base/digest.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/tensor_blocks.hpp"
#include "common/step/policy.hpp"

namespace zeroproof::verification {

/// Scales of 8-bit parameters, by block; without blocks there are none.
struct TrajectoryScales {
  const TensorBlocks* blocks = nullptr;
  TensorView param_scale;
  TensorView amax_history;  ///< under delayed, else empty
};

/// The trajectory hash of CONTRACT.md.
class TrajectoryHash {
 public:
  explicit TrajectoryHash(GradSum grad_sum = GradSum::tree);

  struct Scalars {
    std::int64_t step = 0;
    TensorView step_scalars;  ///< 15 words, or 15 for every tensor
    int log2_loss_scale = 0;
    bool found_inf = false;
    bool skipped = false;
    TensorView grad_norm;     ///< fp64, of every clip group
    TensorView clip_coef;     ///< fp32, the same
    TensorView tensor_steps;  ///< under missing_grad = skip, else empty
  };

  struct Buffer {
    TensorView view;               ///< [padded_numel / block_numel]
    std::int64_t block_numel = 1;  ///< elements per value, above 1 for scales of state (R25)
  };

  /// buffers: G, master, the rule's state in the order of R6, each followed by its scales if it has some, param.
  void add_step(const Scalars& scalars, const FlatLayout& layout,
                const std::vector<Buffer>& buffers, const TrajectoryScales& scales = {});

  Digest digest() const { return hasher_.digest(); }

 private:
  void add_scales(const TrajectoryScales& scales, std::int64_t tensor);

  Hasher hasher_;
};

}  // namespace zeroproof::verification
