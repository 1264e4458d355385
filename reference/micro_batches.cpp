#include "reference/micro_batches.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::reference {

MicroBatches contiguous(const OptimizerSetup& setup, int rank) {
  const std::int64_t world_size = setup.comm->world_size();
  return {setup.micro_batches * rank / world_size, setup.micro_batches * (rank + 1) / world_size};
}

std::vector<std::int64_t> own_micro_batches(const OptimizerSetup& setup) {
  const bool strided = setup.stage == 2;
  const auto [first, last] = contiguous(setup, setup.comm->rank());
  std::vector<std::int64_t> own;
  for (std::int64_t j = 0; j < setup.micro_batches; ++j) {
    const bool mine = strided ? j % setup.comm->world_size() == setup.comm->rank() : first <= j && j < last;
    if (mine) own.push_back(j);
  }
  return own;
}

void add_tokens(std::int64_t& sum, std::int64_t micro_batch, std::int64_t num_tokens) {
  constexpr std::int64_t too_many = std::int64_t{1} << 53;
  ZP_CHECK(0 <= num_tokens && num_tokens < too_many - sum, ErrorCode::invalid_argument,
           "micro-batch " + std::to_string(micro_batch) + " has " + std::to_string(num_tokens) + " tokens",
           "the tokens of a step are counted from 0 to below 2^53", "mend the leaf source");
  sum += num_tokens;
}

std::int64_t divisor_of_step(const OptimizerSetup& setup, const LeafSource& leaves) {
  if (setup.loss_reduction == LossReduction::mean) return setup.micro_batches;
  std::int64_t tokens = 0;
  for (const std::int64_t j : own_micro_batches(setup)) add_tokens(tokens, j, leaves.num_tokens(j));
  std::uint64_t sum = static_cast<std::uint64_t>(tokens);
  setup.comm->all_reduce({&sum, 1}, IntegerReduce::sum);
  // A step without any token has a gradient of 0, which may be divided by anything but 0.
  return static_cast<std::int64_t>(std::max<std::uint64_t>(sum, 1));
}

std::vector<bool> tensors_with_grad(const OptimizerSetup& setup, const LeafSource& leaves) {
  const std::size_t num_tensors = setup.layout->tensors().size();
  std::vector<std::uint64_t> mask((num_tensors + 63) / 64);  // bit k % 64 of word k / 64 stands for tensor k
  for (const std::int64_t j : own_micro_batches(setup)) {
    for (std::size_t tensor = 0; tensor < num_tensors; ++tensor) {
      const std::uint64_t given = leaves.has_grad(j, static_cast<std::int64_t>(tensor)) ? 1 : 0;
      mask[tensor / 64] |= given << (tensor % 64);
    }
  }
  setup.comm->all_reduce(mask, IntegerReduce::bitwise_or);
  std::vector<bool> has_grad;
  for (std::size_t tensor = 0; tensor < num_tensors; ++tensor) {
    has_grad.push_back((mask[tensor / 64] >> (tensor % 64) & 1U) != 0);
  }
  return has_grad;
}

}  // namespace zeroproof::reference
