#pragma once

#include "common/base/span.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// Where G of a step goes.
struct GradTarget {
  Span<float> grad_sum;        ///< all of the model in stage 0, otherwise this rank's shard
  SeeSum see = {};             ///< every element of grad_sum once, as it is written; may be empty
  bool leaf_may_stay = false;  ///< a leaf that is G by itself may be left where it is
};

}  // namespace zeroproof::cuda
