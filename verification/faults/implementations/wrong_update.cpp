// Wrong updates from public bugs, in the choice of elements, inputs and counts: replaced phase
// update.

#include <algorithm>
#include <vector>

#include "cuda/host/operations.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class WrongUpdate : public HostStep {
 public:
  using HostStep::HostStep;

 protected:
  /// Tensor by tensor, like the optimizers with these bugs.
  void update_pieces() override {
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      if (steps_.updated(piece)) update_piece(exec, piece);
    });
    steps_.advance();
  }
};

/// The shard's length is that of all elements without padding, divided by the ranks.
class UnpaddedCount final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_piece(const Exec& exec, const Piece& piece) override {
    if (piece.local_begin >= setup_.layout->numel() / setup_.comm->world_size()) return;
    HostStep::update_piece(exec, piece);
  }
};

/// If the rows do not divide by the world size, a rank updates only the rounded-down number.
class UnevenRowsDropped final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_piece(const Exec& exec, const Piece& piece) override {
    const TensorSlot& slot = setup_.layout->tensors()[at(piece.tensor)];
    const std::int64_t world = setup_.comm->world_size();
    const std::int64_t rows = slot.shape.empty() ? 1 : slot.shape.front();
    const std::int64_t inner = slot.numel / rows;
    const std::int64_t begin = setup_.comm->rank() * ((rows + world - 1) / world) * inner;
    Piece even = piece;
    even.numel =
        std::clamp(begin + rows / world * inner - piece.tensor_begin, std::int64_t{0}, piece.numel);
    if (even.numel > 0) HostStep::update_piece(exec, even);
  }
};

/// A launch per tensor, the last one issued by the last tensor of the model: lost if that tensor is
/// empty on this rank.
class EmptyTailDropsLaunch final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_piece(const Exec& exec, const Piece& piece) override {
    const std::int64_t last_here = setup_.layout->pieces(ranges_).back().tensor;
    const auto last_tensor = static_cast<std::int64_t>(setup_.layout->tensors().size()) - 1;
    if (last_here != last_tensor && piece.tensor == last_here) return;
    HostStep::update_piece(exec, piece);
  }
};

/// One counter for all buckets, advanced by each of them.
class CounterOfSubgroups final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_piece(const Exec& exec, const Piece& piece) override {
    const std::int64_t bucket = piece.global_begin / setup_.shards->buckets().front().numel();
    const auto t = static_cast<std::int64_t>(steps_.applied(piece)) + 1 + bucket;
    const StepScalars late =
        cuda::host::step_scalars(setup_.hyper, t, scaler_.log2_scale, setup_.micro_batches);
    state_.update(ops_, exec, setup_.hyper, late, piece, part(grad_, piece), part(master_, piece));
  }
};

/// Gradients are contiguous in the opposite order of dimensions.
class TransposedGrads final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_piece(const Exec& exec, const Piece& piece) override {
    const std::vector<std::int64_t>& shape = setup_.layout->tensors()[at(piece.tensor)].shape;
    if (shape.size() != 2 || piece.numel != shape[0] * shape[1]) {
      return HostStep::update_piece(exec, piece);
    }
    const Span<const float> grad = part(grad_, piece);
    std::vector<float> transposed(grad.size());
    const auto rows = at(shape[0]);
    const auto columns = at(shape[1]);
    for (std::size_t i = 0; i < grad.size(); ++i)
      transposed[i] = grad[i % rows * columns + i / rows];
    state_.update(ops_, exec, setup_.hyper, steps_.scalars(piece), piece, transposed,
                  part(master_, piece));
  }
};

/// A rank that owns nothing returns before it counts the step.
class EmptyRankReturns final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_pieces() override {
    if (master_->numel() > 0) WrongUpdate::update_pieces();
  }
};

/// Tensors that share a counter advance it twice.
class CountedTwice final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_pieces() override {
    WrongUpdate::update_pieces();
    const TensorView counts = steps_.tensor_steps_view();
    for (std::int64_t i = 0; i < counts.numel; ++i) ++static_cast<std::uint64_t*>(counts.data)[i];
  }
};

/// The shard is counted in vectors, one vector too many.
class UpdateOneVectorMore final : public WrongUpdate {
  using WrongUpdate::WrongUpdate;
  void update_pieces() override {
    WrongUpdate::update_pieces();
    const Span<float> exp_avg = state_[StateSlot::exp_avg].as<float>();
    constexpr std::size_t vector = 16;
    static_assert(vector * sizeof(float) <= GuardedBuffer::guard_bytes);
    std::fill_n(exp_avg.data() + exp_avg.size(), vector, 0.0F);
  }
};

}  // namespace

cuda::MakeLocalStep wrong_update(std::string_view fault, const FaultContext& context) {
  struct Row {
    std::string_view fault;
    cuda::MakeLocalStep (*make)(const FaultContext& context);
  };
  constexpr Row rows[] = {{"shard-from-unpadded-count", step_of<UnpaddedCount>},
                          {"uneven-rows-dropped", step_of<UnevenRowsDropped>},
                          {"empty-tail-drops-launch", step_of<EmptyTailDropsLaunch>},
                          {"one-counter-for-subgroups", step_of<CounterOfSubgroups>},
                          {"gradient-read-transposed", step_of<TransposedGrads>},
                          {"empty-rank-has-no-step", step_of<EmptyRankReturns>},
                          {"counter-shared-by-tensors", step_of<CountedTwice>},
                          {"state-written-past-its-end", step_of<UpdateOneVectorMore>}};
  for (const Row& row : rows) {
    if (row.fault == fault) return row.make(context);
  }
  return nullptr;
}

}  // namespace zeroproof::verification
