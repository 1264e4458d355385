#include "cuda/optimizer_checks.hpp"

#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/contracts/binned_sum.hpp"
#include "cuda/host/loss_scaler.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/micro_batches.hpp"
#include "cuda/rule_state.hpp"

namespace zeroproof::cuda {
namespace {

void require(bool ok, const std::string& problem, const char* why, const char* remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

bool is_tensor_dtype(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

void require_shards(const OptimizerSetup& setup) {
  require(setup.shards->padded_numel() == setup.layout->padded_numel(),
          "the shard map covers " + std::to_string(setup.shards->padded_numel()) +
              " elements but the layout has " + std::to_string(setup.layout->padded_numel()),
          "elements without an owner would never be updated", "build the shard map from this layout");
  require(setup.shards->world_size() == setup.comm->world_size(),
          "the shard map is for " + std::to_string(setup.shards->world_size()) +
              " ranks but the communicator has " + std::to_string(setup.comm->world_size()),
          "some elements would have no owner, or two", "build the shard map for this world size");
  require(setup.shards->covers(*setup.layout), "the shard map leaves elements of tensors without an owner",
          "they would never be updated", "build the shard map from this layout");
  require(setup.hyper.norm != NormForm::chunk1024 || (setup.shards->aligned() && tp_ranks(setup) == 1),
          "the norm chunk1024 was asked for with " + std::to_string(tp_ranks(setup)) + " TP ranks and " +
              (setup.shards->aligned() ? "shards cut at multiples of 1024" : "shards cut anywhere"),
          "its chunks of 1024 elements must lie whole on one rank, in the undistributed numbering",
          "use the norm exact, one or inf");
}

/// Data ranks, CP and TP ranks, and where a TP rank's tensors stand in the undistributed model.
void require_grid(const OptimizerSetup& setup) {
  require(setup.cp == 1 || setup.cp == 2 || setup.cp == 4 || setup.cp == 8,
          "cp is " + std::to_string(setup.cp), "sums inside the model fold in 8 blocks", "use 1, 2, 4 or 8");
  require(data_ranks(setup) % setup.cp == 0,
          std::to_string(data_ranks(setup)) +
              " data ranks are not a multiple of cp = " + std::to_string(setup.cp),
          "some parts of a micro-batch would be on no rank", "change cp or the number of ranks");
  const std::vector<TensorSlot>& tensors = setup.layout->tensors();
  require(setup.placement.size() == tensors.size() || (setup.placement.empty() && tp_ranks(setup) == 1),
          "there are " + std::to_string(setup.placement.size()) + " placements of " +
              std::to_string(tensors.size()) + " tensors on " + std::to_string(tp_ranks(setup)) + " TP ranks",
          "they say whose gradients come in parts and where elements stand",
          "pass one for every tensor, or none without tensor parallelism");
  for (std::size_t i = 0; i < setup.placement.size(); ++i) {
    const TensorPlacement& place = setup.placement[i];
    require(place.begin >= 0 && (tensors[i].numel == 0 || (place.row_numel >= 1 && place.row_stride >= 1)),
            "the placement of tensor " + tensors[i].name + " has rows of " + std::to_string(place.row_numel) +
                " elements, " + std::to_string(place.row_stride) + " apart, from " +
                std::to_string(place.begin),
            "its elements would have no place in the undistributed model", "use positive numbers");
  }
}

void require_groups(const OptimizerSetup& setup) {
  const std::vector<int>& groups = setup.groups.of_tensor;
  require(groups.empty() || groups.size() == setup.layout->tensors().size(),
          "param groups are given for " + std::to_string(groups.size()) + " of " +
              std::to_string(setup.layout->tensors().size()) + " tensors",
          "every tensor is updated with its group's lr", "make the groups from this layout");
  for (const int group : groups) {
    require(group >= 0 && group < setup.groups.count(), "a tensor is in param group " + std::to_string(group),
            "there are fewer groups", "make the groups from this layout");
  }
  // Throws for values outside their ranges, before the first step instead of in the middle of it.
  const int log2_scale = host::loss_scaler_init(setup.scaler).log2_scale;
  for (int group = 0; group < setup.groups.count(); ++group) {
    host::step_scalars(hyper_of(setup.groups, setup.hyper, group, 1, setup.micro_batches), 1, log2_scale,
                       setup.loss_reduction == LossReduction::tokens ? 1 : setup.micro_batches);
  }
}

}  // namespace

const OptimizerSetup& checked(const OptimizerSetup& setup) {
  require(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
          "the optimizer setup lacks its layout, shard map or communicator", "they say what this rank owns",
          "set all three");
  require(setup.stage >= 0 && setup.stage <= 3, "ZeRO stage is " + std::to_string(setup.stage),
          "there are stages 0 to 3", "choose one of them");
  require(setup.micro_batches >= 1, "micro_batches is " + std::to_string(setup.micro_batches),
          "a step needs at least one gradient", "use 1 or more");
  require(setup.persistent_numel >= 0, "persistent_numel is " + std::to_string(setup.persistent_numel),
          "tensors of at most that many elements stay whole", "use 0 or more");
  require_grid(setup);
  require_shards(setup);
  require(setup.grad_sum != GradSum::binned || setup.micro_batches <= binned_max_leaves / setup.cp,
          std::to_string(setup.micro_batches) + " micro-batches of " + std::to_string(setup.cp) +
              " parts are to be summed in bins",
          "32-bit fields hold 128 leaves", "use fewer, or the gradient sum tree");
  require(is_tensor_dtype(setup.param_dtype) && is_tensor_dtype(setup.leaf_dtype),
          "parameters are " + std::string(name(setup.param_dtype)) + " and leaves " +
              std::string(name(setup.leaf_dtype)),
          "only fp32, bf16 and fp16 hold gradients and parameters", "choose one of them");
  require(setup.param_rounding == ParamRounding::nearest || setup.param_dtype == DType::bf16,
          "stochastic rounding was asked for with " + std::string(name(setup.param_dtype)) + " parameters",
          "it is defined for bf16 only", "use bf16 parameters, or round to nearest");
  require_groups(setup);
  return setup;
}

void require_state(const OptimizerSetup& setup, const FullState& state) {
  const auto numel = static_cast<std::size_t>(setup.layout->padded_numel());
  const auto require_numel = [&](std::string_view buffer, std::size_t size, std::size_t expected) {
    require(size == expected,
            "the state's " + std::string(buffer) + " has " + std::to_string(size) + " elements, not " +
                std::to_string(expected),
            "state would be lost or read past its end", "pass flat buffers, padding included");
  };
  require_numel("master", state.master.size(), numel);
  for (const StateBuffer& buffer : state_buffers) {
    if (keeps(setup.hyper, buffer.id)) require_numel(name(buffer.id), (state.*buffer.full).size(), numel);
  }
  if (setup.missing_grad == MissingGrad::skip) {
    require_numel("tensor_steps", state.tensor_steps.size(), setup.layout->tensors().size());
  }
  constexpr std::int64_t most =
      std::numeric_limits<std::int64_t>::max() - 1;  // the next step has a number too
  const auto require_count = [&](std::string_view what, bool good, const std::string& shown) {
    require(good, std::string(what) + " is " + shown, "bias correction counts applied steps",
            "use a value from 0 to 2^63 - 2");
  };
  require_count("applied_steps", state.applied_steps >= 0 && state.applied_steps <= most,
                std::to_string(state.applied_steps));
  if (setup.missing_grad == MissingGrad::zero) return;
  for (const std::uint64_t count : state.tensor_steps) {
    require_count("a tensor's step count", count <= static_cast<std::uint64_t>(most), std::to_string(count));
  }
}

}  // namespace zeroproof::cuda
