// Faults of phase cast of 8-bit parameters: the scale of the codes, and the time at which a history
// advances.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/step/param_scaling.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

/// Stores the scales of its shard.
class ScaledStep : public HostStep {
 public:
  ScaledStep(cuda::RankShard& shard, bool fused, const cuda::KernelTable& ops)
      : HostStep(shard, fused, ops), scales_(*shard.scales) {}

 protected:
  static std::vector<float> copied(Span<const float> values) {
    return {values.begin(), values.end()};
  }

  /// The codes of the tensors in the step, by these scales. scale: [num_blocks] of all tensors.
  void make_codes(Span<const float> scale) {
    setup_.param_dtype == DType::e5m2 ? make_codes_of<e5m2>(scale) : make_codes_of<e4m3>(scale);
  }

  /// Scales from the histories, which advance, of tensors with take_part(tensor).
  template <class TakesPart>
  void make_delayed_scales(Span<std::uint32_t> history, const TakesPart& takes_part) {
    const auto slots = static_cast<std::size_t>(scales_.slots());
    scales_.for_blocks(takes_part, [&](std::int64_t first, std::int64_t count) {
      const auto at = static_cast<std::size_t>(first), blocks = static_cast<std::size_t>(count);
      ops_.delayed_scales(setup_.exec, delayed_of(setup_.scaling, setup_.param_dtype),
                          history.subspan(at * slots, blocks * slots),
                          scales_.scale().subspan(at, blocks),
                          scales_.scale_inv().subspan(at, blocks));
    });
  }

  cuda::ParamScales& scales_;

 private:
  template <class T>
  void make_codes_of(Span<const float> scale) {
    scales_.runs().run(setup_.exec, [&](const Exec& exec, const Piece& run) {
      if (!steps_.updated(run)) return;
      const BlockGrid& grid = scales_.blocks().grid(run.tensor);
      const auto first = static_cast<std::size_t>(scales_.blocks().first_block(run.tensor));
      ops_.quantize(exec, {grid, setup_.scaling.value, Overflow::saturate}, run.tensor_begin,
                    cuda::part(master_, run), scale.subspan(first, grid.num_blocks()),
                    param_store_.as<T>(run));
    });
  }
};

/// Quantization uses the pointer to the scales of the step before.
class LastScale final : public ScaledStep {
  using ScaledStep::ScaledStep;
  void cast() override {
    const std::vector<float> before = copied(scales_.scale());
    HostStep::cast();
    make_codes(before);
  }
};

/// The inverse scales are those of the loaded state.
class InverseStays final : public ScaledStep {
  using ScaledStep::ScaledStep;
  void cast() override {
    const std::vector<float> before = copied(scales_.scale_inv());
    HostStep::cast();
    std::copy(before.begin(), before.end(), scales_.scale_inv().begin());
  }
};

/// Histories of all tensors advance, whether a tensor had a gradient or not.
class IdleHistoryMoves final : public ScaledStep {
  using ScaledStep::ScaledStep;
  void cast() override {
    HostStep::cast();
    make_delayed_scales(scales_.history(),
                        [&](std::int64_t tensor) { return !steps_.updated(tensor); });
  }
};

/// The amax of this step enters the history before the scale of this step is computed.
class AmaxTooEarly final : public ScaledStep {
  using ScaledStep::ScaledStep;
  void cast() override {
    HostStep::cast();
    std::vector<std::uint32_t> history(scales_.history().begin(), scales_.history().end());
    make_delayed_scales(history, [&](std::int64_t tensor) { return steps_.updated(tensor); });
    make_codes(scales_.scale());
  }
};

void require_scales(std::string_view fault, const OptimizerSetup& setup, bool history) {
  ZP_CHECK(has_scales(setup.param_dtype) && (!history || keeps_history(setup.scaling)),
           ErrorCode::unavailable,
           "the fault '" + std::string(fault) + "' cannot be planted without " +
               (history ? "histories of amaxes" : "scales of parameters"),
           "it changes them",
           history ? "run it with the recipe fp8-delayed"
                   : "run it with 8-bit parameters, as in fp8-current");
}

}  // namespace

cuda::MakeLocalStep wrong_scaled_cast(std::string_view fault, const FaultContext& context) {
  struct Row {
    std::string_view fault;
    cuda::MakeLocalStep (*make)(const FaultContext& context);
    bool history;
  };
  constexpr Row rows[] = {{"codes-by-last-scale", step_of<LastScale>, false},
                          {"scale-inv-not-renewed", step_of<InverseStays>, false},
                          {"history-rolls-when-idle", step_of<IdleHistoryMoves>, true},
                          {"amax-makes-its-own-scale", step_of<AmaxTooEarly>, true}};
  for (const Row& row : rows) {
    if (row.fault != fault) continue;
    require_scales(fault, context.setup, row.history);
    return row.make(context);
  }
  return nullptr;
}

}  // namespace zeroproof::verification
