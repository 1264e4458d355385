#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/params/param_scales.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// Phase cast of parameters in 8 bits on the host (R24), or of columns that have scales of their own: magnitudes of new
/// masters, joined over ranks; scales of them; codes of the shard. Two passes over the masters, the first of which an
/// update can make while they are in the caches. Masters that are offloaded are somebody else's: their magnitudes are
/// there before, and their codes are made after.
class ScaledCast {
 public:
  /// Whether a tensor takes part in the step.
  using TakesPart = std::function<bool(std::int64_t tensor)>;

  /// shard.scales has arrays. ops: the implementations that are called; they outlive this, as does what the shard refers to.
  ScaledCast(const RankShard& shard, const KernelTable& ops);

  /// Codes of a state that was loaded; at a beginning also its scales, for which ranks meet, and masters if the setup
  /// asks for it.
  void load(const FullState& state);

  /// Whether updates may collect: they have all masters in the shard.
  bool collects() const { return shard_.split == nullptr; }
  /// An update begins that will collect every piece; what was collected before is forgotten.
  void begin_collecting();
  /// The masters of a piece are new. From any thread; each element once.
  void collect(const Exec& exec, const Piece& piece);
  /// Masters were changed after they were collected.
  void forget() { is_collected_ = false; }

  /// The phase. Collective over all ranks of an instance.
  void cast(const TakesPart& takes_part);

 private:
  void collect_all(const TakesPart& takes_part);
  void collect_run(const Exec& exec, const Piece& run);
  void join() const;
  void make_scales(const TakesPart& takes_part);
  void make_codes(const TakesPart& takes_part);
  void dequantize_masters();
  /// Calls body(exec, run) for the runs of tensors that take part whose masters are in the shard.
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
