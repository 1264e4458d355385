#include "cuda/optimizer/optimizer_checks.hpp"

#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/step/validate_setup.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/host/formats/state_block_parts.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/optimizer/state/rule_state.hpp"
#include "cuda/optimizer/state/state_ranges.hpp"

namespace zeroproof::cuda {
namespace {

void require(bool ok, const std::string& problem, const char* why, const char* remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

/// Throws for values outside their ranges, before the first step instead of during it.
void require_ranges(const OptimizerSetup& setup) {
  const int log2_scale = host::loss_scaler_init(setup.scaler).log2_scale;
  for (int group = 0; group < setup.groups.count(); ++group) {
    host::step_scalars(hyper_of(setup.groups, setup.hyper, group, 1, setup.micro_batches), 1,
                       log2_scale,
                       setup.loss_reduction == LossReduction::tokens ? 1 : setup.micro_batches);
  }
}

/// Combinations that the formats of R25 support.
void require_formats(const OptimizerSetup& setup) {
  const StateFormats& formats = setup.state_formats;
  const int tp = setup.tp == nullptr ? 1 : setup.tp->world_size();
  require(!host::any_state_scales(setup.hyper, formats) || !setup.offload.on() || tp == 1,
          "state in fp16 or e4m3 cannot be offloaded on " + std::to_string(tp) + " TP ranks",
          "chunks need whole blocks, but TP shards split them",
          "use bf16, one TP rank, or do not offload");
}

void require_numel(std::string_view buffer, std::size_t size, std::size_t expected) {
  require(size == expected,
          "the state's " + std::string(buffer) + " has " + std::to_string(size) +
              " elements, not " + std::to_string(expected),
          "state would be lost or read past its end", "pass flat buffers, padding included");
}

/// One scale for every block of the undistributed numbering; a TP rank checks only the blocks of
/// its own elements.
void require_scales(std::string_view buffer, std::size_t size, const OptimizerSetup& setup) {
  if (setup.placement.empty())
    return require_numel(
        buffer, size, static_cast<std::size_t>(setup.layout->padded_numel() / state_block_numel));
  const std::vector<FlatRange> own =
      state_blocks(setup, state_ranges(setup, setup.layout->pieces(state_ranges(setup))));
  const std::int64_t needed = own.empty() ? 0 : own.back().end;
  require(size >= static_cast<std::size_t>(needed),
          "the state's " + std::string(buffer) + " has " + std::to_string(size) +
              " elements, but block " + std::to_string(needed - 1) + " is this rank's",
          "codes would have no scale", "pass one for every block of the undistributed numbering");
}

}  // namespace

const OptimizerSetup& validate(const OptimizerSetup& setup) {
  validate_setup(setup);
  require_ranges(setup);
  require_formats(setup);
  return setup;
}

void require_state(const OptimizerSetup& setup, const FullState& state) {
  const auto numel = static_cast<std::size_t>(setup.layout->padded_numel());
  require_numel("master", state.master.size(), numel);
  for (const StateSlot slot : kept_slots(setup.hyper)) {
    require_numel(name(slot), state.slots[slot].size(), numel);
    const std::size_t scales = state.slot_scales[slot].size();
    if (scales > 0 && has_scales(setup.state_formats.of(slot)))
      require_scales(name(scales_of(slot)), scales, setup);
  }
  require_counters(setup, state);
}

void require_counters(const OptimizerSetup& setup, const FullState& state) {
  if (setup.missing_grad == MissingGrad::skip) {
    require_numel("tensor_steps", state.tensor_steps.size(), setup.layout->tensors().size());
  }
  constexpr std::int64_t most =
      std::numeric_limits<std::int64_t>::max() - 1;  // the next step needs a number too
  const auto require_count = [&](std::string_view what, bool good, const std::string& shown) {
    require(good, std::string(what) + " is " + shown, "bias correction counts applied steps",
            "use a value from 0 to 2^63 - 2");
  };
  require_count("applied_steps", state.applied_steps >= 0 && state.applied_steps <= most,
                std::to_string(state.applied_steps));
  if (setup.missing_grad == MissingGrad::zero) return;
  for (const std::uint64_t count : state.tensor_steps) {
    require_count("a tensor's step count", count <= static_cast<std::uint64_t>(most),
                  std::to_string(count));
  }
}

}  // namespace zeroproof::cuda
