#include "reference/distributed_optimizer.hpp"

#include <string>

#include "common/base/error.hpp"
#include "reference/sharded_optimizer.hpp"

namespace zeroproof::reference {
namespace {

void check_setup(const OptimizerSetup& setup) {
  const auto check = [](bool ok, const std::string& problem, const std::string& why,
                        const std::string& remedy) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
  };
  check(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
        "the optimizer has no layout, shard map or communicator", "it cannot know which elements it owns",
        "set all three in OptimizerSetup");
  check(setup.stage >= 0 && setup.stage <= 2, "the ZeRO stage is " + std::to_string(setup.stage),
        "only state and gradients are sharded here", "use 0, 1 or 2");
  check_groups(setup.groups, *setup.layout);
  check(setup.micro_batches >= 1, "micro_batches is " + std::to_string(setup.micro_batches),
        "a step needs a gradient", "use 1 or more");
  check(setup.leaf_dtype == DType::fp32 || setup.leaf_dtype == DType::bf16 || setup.leaf_dtype == DType::fp16,
        "the leaf dtype is " + std::string(name(setup.leaf_dtype)), "gradients are fp32, bf16 or fp16",
        "choose one of these");
  check(setup.param_rounding == ParamRounding::nearest || setup.param_dtype == DType::bf16,
        "parameters of " + std::string(name(setup.param_dtype)) + " are to be rounded stochastically",
        "only the rounding to bf16 has a stochastic form", "use bf16, or param_rounding nearest");
  check(setup.shards->padded_numel() == setup.layout->padded_numel(),
        "the shard map covers " + std::to_string(setup.shards->padded_numel()) +
            " elements and the layout has " + std::to_string(setup.layout->padded_numel()),
        "every element needs one owner", "make the shard map from this layout");
  check(setup.shards->world_size() == setup.comm->world_size(),
        "the shard map is for " + std::to_string(setup.shards->world_size()) + " ranks and there are " +
            std::to_string(setup.comm->world_size()),
        "every shard needs a rank", "make the shard map for this communicator");
}

}  // namespace

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup) {
  check_setup(setup);
  return std::make_unique<ShardedOptimizer>(setup);
}

}  // namespace zeroproof::reference
