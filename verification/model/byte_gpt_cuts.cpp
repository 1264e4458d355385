#include "verification/model/byte_gpt_cuts.hpp"

#include "verification/model/byte_gpt_place.hpp"
#include "verification/model/byte_gpt_tensors.hpp"

namespace zeroproof::workload {
std::vector<int> byte_gpt_cuts(const ByteGptShape& shape) {
  std::vector<int> cuts(byte_gpt_params(shape).size(), -1);
  for (int block = 0; block < shape.layers; ++block) {
    const auto cut = [&](BlockTensor which, int behind = 0) -> int& {
      return cuts[block_tensor(shape, block, which) + behind];
    };
    for (const BlockTensor weight : {query, key, value, mlp_gate, mlp_up}) {
      if (weight == mlp_gate && !shape.swiglu) continue;
      cut(weight) = 1;
      cut(weight, 1) = 0;  // its bias has only the outputs
    }
    cut(attention_output) = cut(mlp_down) = 0;
  }
  return cuts;
}

TpModel byte_gpt_tp_model(const ByteGptShape& shape, int tp_size, int tp_rank) {
  check_shape(shape);
  check_sizes(shape, tp_size, 1);
  return make_tp_model(byte_gpt_params(shape), byte_gpt_cuts(shape), tp_size, tp_rank);
}

}  // namespace zeroproof::workload
