#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/params/param_scales.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// Phase cast of parameters in 8 bits on the host (R24), or of columns that have scales of their
/// own: magnitudes of new masters, joined over ranks; their scales; codes of the shard. Two passes
/// over the masters, the first of which an update can make while they are in the caches. Offloaded
/// masters are handled elsewhere: their magnitudes are added before, and their codes are made
/// after.
class ScaledCast {
 public:
  /// Whether a tensor takes part in the step.
  using TakesPart = std::function<bool(std::int64_t tensor)>;

  /// shard.scales has arrays. ops: the implementations to call; they and the objects the shard
  /// refers to outlive this.
  ScaledCast(const RankShard& shard, const KernelTable& ops);

  /// Codes of a loaded state; for an initial state also its scales, which is collective, and its
  /// masters if the setup requires it.
  void load(const FullState& state);

  /// Whether updates may collect, that is, all masters are in the shard.
  bool collects() const { return shard_.split == nullptr; }
  /// Starts an update that will collect every piece; earlier collections are discarded.
  void begin_collecting();
  /// Collects the new masters of a piece. From any thread; each element once.
  void collect(const Exec& exec, const Piece& piece);
  /// Marks that masters were changed after they were collected.
  void forget() { is_collected_ = false; }

  /// The phase. Collective over all ranks of an instance.
  void cast(const TakesPart& takes_part);

 private:
  void collect_all(const TakesPart& takes_part);
  void collect_run(const Exec& exec, const Piece& run);
  void make_scales(const TakesPart& takes_part);
  void make_codes(const TakesPart& takes_part);
  void dequantize_masters();
  /// Calls body(exec, run) for the runs of tensors that take part and whose masters are in the
  /// shard.
  template <class Body>
  void for_runs(const TakesPart& takes_part, const Body& body) const;
  Span<float> master_of(const Piece& run) const {
    Piece here = run;
    if (shard_.split != nullptr) here.local_begin = shard_.split->place(run.local_begin);
    return part(shard_.master, here);
  }

  RankShard shard_;
  const OptimizerSetup& setup_;
  ParamScales& scales_;
  const KernelTable& ops_;
  const Span<std::uint32_t> collected_;
  bool is_collected_ = false;
};

}  // namespace zeroproof::cuda
