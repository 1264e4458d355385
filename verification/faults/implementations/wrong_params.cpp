// Wrong parameters from masters, from public bugs: replaced casts, draws and fused pass.

#include <cstring>

#include "common/base/float_formats.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

/// There is no master: the next step starts from the 16-bit parameters.
class NoMaster final : public HostStep {
  using HostStep::HostStep;
  void cast() override {
    HostStep::cast();
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      if (setup_.param_dtype == DType::fp16) {
        ops_.widen_fp16(exec, param_store_.as<fp16>(piece), part(master_, piece));
      } else {
        ops_.widen_bf16(exec, param_store_.as<bf16>(piece), part(master_, piece));
      }
    });
  }
};

/// Each TP rank numbers its random words from zero.
class LocalDraws final : public HostStep {
  using HostStep::HostStep;
  RoundingDraw draw(const Piece& piece, std::uint64_t updates_ahead) const override {
    return {setup_.seed, steps_.applied(piece) + updates_ahead,
            static_cast<std::uint64_t>(piece.global_begin)};
  }
};

/// The fused pass, without the clip coefficient.
class FusedUnclipped final : public HostStep {
  using HostStep::HostStep;
  void update_fused() override {
    const cuda::host::FusedOptions options = cuda::host::fused_options(setup_.hyper);
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      if (!steps_.updated(piece)) return;
      cuda::host::fused_update(exec, options, steps_.scalars(piece), 1.0F, part(grad_, piece),
                               state_.fused(piece, part(master_, piece)), param_store_.of(piece));
    });
    steps_.advance();
  }
};

/// The fused pass stores the parameter before it adds the update to the master.
class FusedCastsFirst final : public HostStep {
  using HostStep::HostStep;
  void update_fused() override {
    const TensorView shard = param_store_.shard();
    GuardedBuffer old(shard.numel, shard.dtype);
    cast_pieces();
    const auto bytes = static_cast<std::size_t>(shard.num_bytes());
    std::memcpy(old.data(), shard.data, bytes);
    HostStep::update_fused();
    std::memcpy(shard.data, old.data(), bytes);
  }
};

}  // namespace

cuda::MakeLocalStep wrong_params(std::string_view fault, const FaultContext& context) {
  if (fault == "no-master") return step_of<NoMaster>(context);
  if (fault == "draws-by-local-index") return step_of<LocalDraws>(context);
  if (fault == "fused-clip-forgotten") return step_of<FusedUnclipped>(context);
  if (fault == "fused-cast-of-old-master") return step_of<FusedCastsFirst>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
