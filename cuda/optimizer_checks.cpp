#include "cuda/optimizer_checks.hpp"

#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "cuda/host/loss_scaler.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/rule_state.hpp"

namespace zeroproof::cuda {
namespace {

void require(bool ok, const std::string& problem, const char* why, const char* remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

bool is_tensor_dtype(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

}  // namespace

const OptimizerSetup& checked(const OptimizerSetup& setup) {
  require(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
          "the optimizer setup lacks its layout, shard map or communicator", "they say what this rank owns",
          "set all three");
  require(setup.stage >= 0 && setup.stage <= 2, "ZeRO stage is " + std::to_string(setup.stage),
          "the production path has stages 0, 1 and 2", "choose one of them");
  require(setup.micro_batches >= 1, "micro_batches is " + std::to_string(setup.micro_batches),
          "a step needs at least one gradient", "use 1 or more");
  require(setup.shards->padded_numel() == setup.layout->padded_numel(),
          "the shard map covers " + std::to_string(setup.shards->padded_numel()) +
              " elements but the layout has " + std::to_string(setup.layout->padded_numel()),
          "elements without an owner would never be updated", "build the shard map from this layout");
  require(setup.shards->world_size() == setup.comm->world_size(),
          "the shard map is for " + std::to_string(setup.shards->world_size()) +
              " ranks but the communicator has " + std::to_string(setup.comm->world_size()),
          "some elements would have no owner, or two", "build the shard map for this world size");
  require(is_tensor_dtype(setup.param_dtype) && is_tensor_dtype(setup.leaf_dtype),
          "parameters are " + std::string(name(setup.param_dtype)) + " and leaves " +
              std::string(name(setup.leaf_dtype)),
          "only fp32, bf16 and fp16 hold gradients and parameters", "choose one of them");
  require(setup.param_rounding == ParamRounding::nearest || setup.param_dtype == DType::bf16,
          "stochastic rounding was asked for with " + std::string(name(setup.param_dtype)) + " parameters",
          "it is defined for bf16 only", "use bf16 parameters, or round to nearest");
  // Both throw for values outside their ranges, before the first step instead of in the middle of it.
  host::step_scalars(setup.hyper, 1, host::loss_scaler_init(setup.scaler).log2_scale,
                     setup.loss_reduction == LossReduction::tokens ? 1 : setup.micro_batches);
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
