#include "reference/distributed_optimizer.hpp"

#include <string>

#include "common/base/error.hpp"
#include "common/contracts/binned_sum.hpp"
#include "reference/placement.hpp"
#include "reference/ranks.hpp"
#include "reference/sharded_optimizer.hpp"

namespace zeroproof::reference {
namespace {

void check(bool ok, const std::string& problem, const std::string& why, const std::string& remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

void check_choices(const OptimizerSetup& setup) {
  check(setup.stage >= 0 && setup.stage <= 3, "the ZeRO stage is " + std::to_string(setup.stage),
        "there are four", "use 0, 1, 2 or 3");
  check(setup.persistent_numel >= 0, "persistent_numel is " + std::to_string(setup.persistent_numel),
        "it counts elements", "use 0 or more");
  check(setup.micro_batches >= 1, "micro_batches is " + std::to_string(setup.micro_batches),
        "a step needs a gradient", "use 1 or more");
  check(setup.leaf_dtype == DType::fp32 || setup.leaf_dtype == DType::bf16 || setup.leaf_dtype == DType::fp16,
        "the leaf dtype is " + std::string(name(setup.leaf_dtype)), "gradients are fp32, bf16 or fp16",
        "choose one of these");
  check(setup.param_rounding == ParamRounding::nearest || setup.param_dtype == DType::bf16,
        "parameters of " + std::string(name(setup.param_dtype)) + " are to be rounded stochastically",
        "only the rounding to bf16 has a stochastic form", "use bf16, or param_rounding nearest");
}

void check_shards(const OptimizerSetup& setup) {
  check(setup.shards->padded_numel() == setup.layout->padded_numel(),
        "the shard map covers " + std::to_string(setup.shards->padded_numel()) +
            " elements and the layout has " + std::to_string(setup.layout->padded_numel()),
        "every element needs one owner", "make the shard map from this layout");
  check(setup.shards->world_size() == setup.comm->world_size(),
        "the shard map is for " + std::to_string(setup.shards->world_size()) + " ranks and there are " +
            std::to_string(setup.comm->world_size()),
        "every shard needs a rank", "make the shard map for this communicator");
  check(setup.shards->covers(*setup.layout), "the shard map leaves elements of tensors without an owner",
        "nobody would update them", "make the shard map from this layout");
}

/// The norm chunk1024 needs whole chunks, each on one rank of one undistributed model (R12).
void check_norm(const OptimizerSetup& setup) {
  if (setup.hyper.norm != NormForm::chunk1024) return;
  check(setup.shards->aligned(), "the norm is chunk1024 and the shard map cuts inside a chunk",
        "its order of additions is that of whole chunks (R12)", "use the norm exact, one or inf");
  check(tp_size(setup) == 1,
        "the norm is chunk1024 and there are " + std::to_string(tp_size(setup)) + " TP ranks",
        "chunks of a part are not chunks of the whole tensor (R12)", "use the norm exact, one or inf");
}

void check_cp(const OptimizerSetup& setup) {
  const int cp = setup.cp;
  check(cp == 1 || cp == 2 || cp == 4 || cp == 8,
        "there are " + std::to_string(cp) + " CP ranks per micro-batch",
        "the tree has 1, 2, 4 or 8 parts below a leaf (R11)", "use one of these");
  check(data_ranks(setup) % cp == 0,
        "there are " + std::to_string(data_ranks(setup)) + " data ranks, which " + std::to_string(cp) +
            " CP ranks per micro-batch do not divide",
        "some parts of a micro-batch would have no rank", "use a multiple of cp");
}

void check_sum(const OptimizerSetup& setup) {
  check(setup.grad_sum != GradSum::native, "the gradient sum is native and this is the reference",
        "what a library adds has no bits to compare with; it is judged by the bounds of R11",
        "use the reference with tree or binned");
  check(setup.grad_sum != GradSum::binned || setup.micro_batches <= binned_max_leaves / setup.cp,
        "a binned sum is to hold " + std::to_string(setup.micro_batches) + " micro-batches in " +
            std::to_string(setup.cp) + " parts each",
        "its 32-bit fields have room for " + std::to_string(binned_max_leaves) + " leaves (R11)",
        "use fewer micro-batches, or the tree");
}

void check_setup(const OptimizerSetup& setup) {
  check(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
        "the optimizer has no layout, shard map or communicator", "it cannot know which elements it owns",
        "set all three in OptimizerSetup");
  check_choices(setup);
  check_groups(setup.groups, *setup.layout);
  check_placement(setup);
  check_shards(setup);
  check_norm(setup);
  check_cp(setup);
  check_sum(setup);
}

}  // namespace

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup) {
  check_setup(setup);
  return std::make_unique<ShardedOptimizer>(setup);
}

}  // namespace zeroproof::reference
