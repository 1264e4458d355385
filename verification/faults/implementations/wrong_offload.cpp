// Wrong steps with offloaded state.

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "cuda/offload/file_state.hpp"
#include "cuda/optimizer/production_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::ChunkedHostStep;
using cuda::ChunkFile;
using cuda::FileState;

/// A chunk is written back once more, from a slot that was already reused.
class WrittenTwice final : public FileState {
  using FileState::FileState;
  void leave(std::int64_t chunk, ChunkFile::Slot& slot) override {
    FileState::leave(chunk, slot);
    FileState::leave(chunk, slot);
  }
};

/// A chunk is read ahead before it was last written back, and the slot is marked as current.
class ReadTooFarAhead final : public FileState {
 public:
  ReadTooFarAhead(const OptimizerSetup& setup, const cuda::StateSplit& split)
      : FileState(setup, split),
        buffers_(cuda::offloaded_buffers(setup)),
        kept_(split.chunks().size()) {}

 private:
  struct Versions {
    std::vector<std::byte> last, before;
  };

  void arrive(Use use, std::int64_t chunk, ChunkFile::Slot& slot) override {
    FileState::arrive(use, chunk, slot);
    const std::vector<std::byte>& old = kept_[chunk].before;
    if (use == Use::change) std::ranges::copy(old, slot.memory.data());
  }
  void leave(std::int64_t chunk, ChunkFile::Slot& slot) override {
    Versions& kept = kept_[chunk];
    const std::int64_t numel = split_.chunks()[chunk].numel;
    const std::byte* const data = slot.memory.data();
    std::vector<std::byte> now(data, data + cuda::offloaded_bytes(buffers_, numel));
    const bool same = now == kept.last;
    if (!same) {
      kept.before = std::move(kept.last);
      kept.last = std::move(now);
    }
    FileState::leave(chunk, slot);
  }

  const std::vector<cuda::OffloadedBuffer> buffers_;
  std::vector<Versions> kept_;  // [chunks]
};

/// Only masters are written back: the file keeps the old moments.
class MastersAlone final : public FileState {
 public:
  MastersAlone(const OptimizerSetup& setup, const cuda::StateSplit& split)
      : FileState(setup, split), arrived_(split.chunks().size()) {}

 private:
  void arrive(Use use, std::int64_t chunk, ChunkFile::Slot& slot) override {
    FileState::arrive(use, chunk, slot);
    if (use != Use::change) return;
    const std::byte* const data = slot.memory.data();
    arrived_[chunk].assign(data, data + slot.memory.num_bytes());
  }
  void leave(std::int64_t chunk, ChunkFile::Slot& slot) override {
    const std::vector<std::byte>& before = arrived_[chunk];  // empty: not filled yet
    const std::int64_t numel = split_.chunks()[chunk].numel;
    const TensorView master = slot.memory.part(0, numel, numel)[BufferId::master];
    auto* const bytes = static_cast<std::byte*>(master.data);
    const std::vector<std::byte> now(bytes, bytes + master.num_bytes());
    if (!before.empty()) std::ranges::copy(before, slot.memory.data());
    std::ranges::copy(now, bytes);
    FileState::leave(chunk, slot);
  }

  std::vector<std::vector<std::byte>> arrived_;  // [chunks]
};

/// Only full chunks are counted: the remainder is filled once, and never written back.
class RemainderStays final : public FileState {
 public:
  RemainderStays(const OptimizerSetup& setup, const cuda::StateSplit& split)
      : FileState(setup, split), filled_(split.chunks().size(), 0) {}

 private:
  void leave(std::int64_t chunk, ChunkFile::Slot& slot) override {
    const auto at = static_cast<std::size_t>(chunk);
    const bool full = split_.chunks()[at].numel == split_.chunks().front().numel;
    if (full || filled_[at] == 0) FileState::leave(chunk, slot);
    filled_[at] = 1;
  }

  std::vector<char> filled_;  // [chunks]
};

/// The host's copy of a gradient stays if no new one arrives, and every tensor that has a copy is
/// updated with it.
class GradOfLastStep final : public ChunkedHostStep {
  using ChunkedHostStep::ChunkedHostStep;

  void update_chunks(const cuda::StepDecision& decision) override {
    has_grad_ = decision.has_grad;
    cuda::StepDecision all = decision;
    std::ranges::fill(all.has_grad, ~std::uint64_t{0});
    ChunkedHostStep::update_chunks(all);
  }
  void update_piece(const Exec& exec, const Piece& piece) override {
    const auto tensor = static_cast<std::size_t>(piece.tensor);
    if ((has_grad_[tensor / 64] >> (tensor % 64) & 1) != 0) {
      const auto* grad = static_cast<const float*>(grad_of(piece).data);
      std::vector<float>& kept = kept_[piece.local_begin];
      kept.assign(grad, grad + piece.numel);
    }
    const auto kept = kept_.find(piece.local_begin);
    if (kept == kept_.end()) return;  // it never had one
    cuda::update_by_rule(ops_, exec, setup_.hyper, steps_.scalars(piece), kept->second,
                         state_of(piece));
  }
  /// Tensors are handled one at a time, on one thread.
  void update_pieces() override {
    Exec serial = setup_.exec;
    serial.num_threads = 1;
    updated().run(serial, [&](const Exec& exec, const Piece& piece) { update_piece(exec, piece); });
  }

  std::vector<std::uint64_t> has_grad_;
  std::map<std::int64_t, std::vector<float>> kept_;  ///< by the first element of the piece
};

template <class State>
cuda::OffloadMakers state_of_class() {
  cuda::OffloadMakers makers;
  makers.state = [](const OptimizerSetup& setup, const cuda::StateSplit& split) {
    return std::make_unique<State>(setup, split);
  };
  return makers;
}

cuda::OffloadMakers makers_of(std::string_view fault) {
  if (fault == "offload-chunk-written-twice") return state_of_class<WrittenTwice>();
  if (fault == "offload-moments-stay") return state_of_class<MastersAlone>();
  if (fault == "offload-remainder-stays") return state_of_class<RemainderStays>();
  if (fault == "offload-chunk-stale") return state_of_class<ReadTooFarAhead>();
  if (fault != "offload-grad-of-last-step") return {};
  cuda::OffloadMakers makers;
  makers.step = [](cuda::RankShard& shard, cuda::OffloadedState& state, cuda::OffloadStream* lane,
                   bool fused, const cuda::KernelTable& ops) {
    return std::make_unique<GradOfLastStep>(shard, state, lane, fused, ops);
  };
  return makers;
}

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_offload(std::string_view fault,
                                                    const FaultContext& context) {
  const cuda::OffloadMakers makers = makers_of(fault);
  if (!makers.state && !makers.step) return nullptr;
  return std::make_unique<cuda::ProductionOptimizer>(context.setup, context.space, context.ops,
                                                     step_of<cuda::HostStep>(context), std::nullopt,
                                                     makers);
}

}  // namespace zeroproof::verification
