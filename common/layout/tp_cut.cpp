#include "common/layout/tp_cut.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

constexpr int blocks = 8;

/// floor(n * b / 8) without n * b, which may not fit.
std::int64_t block_begin(std::int64_t n, int b) { return n / blocks * b + n % blocks * b / blocks; }

TensorPlacement whole(const TensorSlot& slot) {
  const std::int64_t row = std::max<std::int64_t>(slot.numel, 1);  // unused for an empty tensor
  return {true, slot.begin, row, row};
}

void check(bool ok, const std::string& problem, const std::string& why, const std::string& remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

}  // namespace

TpModel make_tp_model(const std::vector<ParamSpec>& params, const std::vector<int>& cut_dim,
                      int tp_size, int tp_rank) {
  check(tp_size == 1 || tp_size == 2 || tp_size == 4 || tp_size == 8,
        "there are " + std::to_string(tp_size) + " TP ranks",
        "sums inside the model are split between eight blocks, rule R18", "use 1, 2, 4 or 8");
  check(tp_rank >= 0 && tp_rank < tp_size,
        "TP rank " + std::to_string(tp_rank) + " of " + std::to_string(tp_size) + " does not exist",
        "every part belongs to a TP rank", "count from 0");
  check(cut_dim.size() == params.size(),
        "there are " + std::to_string(cut_dim.size()) + " split dimensions for " +
            std::to_string(params.size()) + " tensors",
        "every tensor is split or whole", "pass one per tensor, -1 for whole tensors");
  const FlatLayout layout(params);
  TpModel model{params, {}};
  for (std::size_t k = 0; k < params.size(); ++k) {
    const TensorSlot& slot = layout.tensors()[k];
    if (cut_dim[k] == -1) {
      model.placement.push_back(whole(slot));
      continue;
    }
    check(static_cast<std::size_t>(cut_dim[k]) < slot.shape.size(),  // also rejects -2
          "tensor " + slot.name + " has no dimension " + std::to_string(cut_dim[k]) + " to split",
          "it has " + std::to_string(slot.shape.size()) + " dimensions",
          "count from 0, or use -1 for a whole tensor");
    const auto dim = static_cast<std::size_t>(cut_dim[k]);
    const std::int64_t extent = slot.shape[dim];
    const std::int64_t begin = block_begin(extent, blocks / tp_size * tp_rank);
    const std::int64_t end = block_begin(extent, blocks / tp_size * (tp_rank + 1));
    std::int64_t inner = 1;  // elements per index of the split dimension
    for (std::size_t d = dim + 1; d < slot.shape.size() && slot.numel > 0; ++d)
      inner *= slot.shape[d];
    model.params[k].shape[dim] = end - begin;
    model.placement.push_back({false, slot.begin + begin * inner,
                               std::max<std::int64_t>((end - begin) * inner, 1), extent * inner});
  }
  return model;
}

}  // namespace zeroproof
