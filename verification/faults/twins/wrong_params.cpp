// Parameters made from masters as it was wrong in public: casts, draws, the fused pass and gathers written anew.

#include <algorithm>
#include <cstring>

#include "common/base/float_formats.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/zero/production_optimizer.hpp"
#include "verification/faults/planted/ground.hpp"

namespace zeroproof::verification {
namespace {

using cuda::ProductionOptimizer;

class WrongParams : public ProductionOptimizer {
 public:
  explicit WrongParams(const Ground& ground)
      : ProductionOptimizer(ground.setup, ground.space, ground.fused, ground.ops) {}
};

/// There is no master: the next step starts from the 16-bit parameters.
class NoMaster final : public WrongParams {
  using WrongParams::WrongParams;
  void cast() override {
    ProductionOptimizer::cast();
    if (!loaded_) return;
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      if (setup_.param_dtype == DType::fp16) {
        ops_.widen_fp16(exec, param_store_.as<fp16>(piece), part(master_, piece));
      } else {
        ops_.widen_bf16(exec, param_store_.as<bf16>(piece), part(master_, piece));
      }
    });
  }
};

/// Random words are numbered on each TP rank by itself.
class LocalDraws final : public WrongParams {
  using WrongParams::WrongParams;
  RoundingDraw draw(const Piece& piece, std::uint64_t updates_ahead) const override {
    return {setup_.seed, steps_.applied(piece) + updates_ahead,
            static_cast<std::uint64_t>(piece.global_begin)};
  }
};

/// The fused pass, without the coefficient that clips.
class FusedUnclipped final : public WrongParams {
  using WrongParams::WrongParams;
  void update_fused() override {
    const cuda::host::FusedOptions options = cuda::host::fused_options(setup_.hyper);
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      if (!steps_.updated(piece)) return;
      cuda::host::fused_update(exec, options, steps_.scalars(piece), 1.0F, part(grad_, piece),
                               state_.fused(piece, part(master_, piece)), param_store_.of(piece));
    });
    steps_.advance();
    params_.count_cast();
  }
};

/// The fused pass stores the parameter before it has added the update to the master.
class FusedCastsFirst final : public WrongParams {
  using WrongParams::WrongParams;
  void update_fused() override {
    const TensorView shard = param_store_.shard();
    cuda::CountedBuffer old(ledger_, MemoryClass::param_shard, shard.numel, shard.dtype);
    ProductionOptimizer::cast();
    const auto bytes = static_cast<std::size_t>(shard.num_bytes());
    std::memcpy(old->data(), shard.data, bytes);
    ProductionOptimizer::update_fused();
    std::memcpy(shard.data, old->data(), bytes);
  }
};

/// Nobody has the parameters of a loaded state before the first step ends.
class NoGatherAfterLoad final : public WrongParams {
  using WrongParams::WrongParams;
  void gather() override {
    if (loaded_) ProductionOptimizer::gather();
  }
};

/// Tensors that stay whole are gathered once.
class PersistentOnce final : public WrongParams {
  using WrongParams::WrongParams;
  void gather() override {
    if (!loaded_) ProductionOptimizer::gather();
  }
};

/// Parameters arrive in full vectors, one more than there are.
class OneVectorMore final : public WrongParams {
  using WrongParams::WrongParams;
  void gather() override {
    ProductionOptimizer::gather();
    if (!loaded_) return;
    constexpr std::size_t vector = 32;
    static_assert(vector <= GuardedBuffer::guard_bytes);
    const TensorView whole = params_.full();
    std::memset(static_cast<std::byte*>(whole.data) + whole.num_bytes(), 0, vector);
  }
};

template <class Wrong>
std::unique_ptr<DistributedOptimizer> make(const Ground& ground) {
  return std::make_unique<Wrong>(ground);
}

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_params(std::string_view fault, const Ground& ground) {
  struct Row {
    std::string_view fault;
    std::unique_ptr<DistributedOptimizer> (*make)(const Ground& ground);
  };
  constexpr Row rows[] = {{"no-master", make<NoMaster>},
                          {"draws-by-local-index", make<LocalDraws>},
                          {"fused-clip-forgotten", make<FusedUnclipped>},
                          {"fused-cast-of-old-master", make<FusedCastsFirst>},
                          {"no-gather-after-load", make<NoGatherAfterLoad>},
                          {"persistent-not-refreshed", make<PersistentOnce>},
                          {"params-written-past-their-end", make<OneVectorMore>}};
  for (const Row& row : rows) {
    if (row.fault == fault) return row.make(ground);
  }
  return nullptr;
}

}  // namespace zeroproof::verification
