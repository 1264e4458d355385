#pragma once
// Parameters of the unit whose layer computes. In stages 0, 1 and 2 every rank has all parameters; in stage 3 a unit is
// gathered before its layer computes and released afterwards [ZeRO:units].

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/flat_ranges.hpp"

namespace zeroproof::reference {

/// Memory of a unit that knows which parameters it holds: their version counts the casts so far.
class GatheredUnit {
 public:
  GatheredUnit() = default;
  GatheredUnit(std::int64_t numel, DType dtype) : buffer_(numel, dtype) {}

  /// Where parameters of this version are to be written, [numel].
  TensorView open(std::uint64_t version);

  /// What the layer reads, [numel]. Errors: internal if nothing was gathered, or other parameters than `version` were.
  TensorView read(std::uint64_t version) const;

  /// Every element becomes NaN, which shows whoever still looks at it.
  void release();

 private:
  GuardedBuffer buffer_;
  bool gathered_ = false;
  std::uint64_t version_ = 0;
};

/// What an optimizer has of its parameters.
struct ParamSource {
  RangedView shard;  // what this rank owns
  RangedView full;   // what every rank has: everything, in stage 3 the persistent tensors
  const std::uint64_t* version = nullptr;  // the optimizer's count of casts, as it is now
  Span<const float> scale_inv = {};        // of all blocks, with parameters of 8 bits
};

/// Tensors that stage 3 keeps whole on every rank: those of at most persistent_numel elements, padding not included.
FlatRanges persistent_ranges(const OptimizerSetup& setup);

class UnitParams {
 public:
  UnitParams(const OptimizerSetup& setup, std::vector<FlatRange> units, ParamSource source);

  /// Collective over setup.comm in stage 3, nothing in other stages.
  void gather(std::size_t unit);
  /// [unit numel] in the parameter dtype, padding undefined.
  TensorView view(std::size_t unit) const;
  void release(std::size_t unit);

 private:
  const OptimizerSetup& setup_;
  std::vector<FlatRange> units_;
  ParamSource source_;
  std::map<std::size_t, GatheredUnit> gathered_;
};

}  // namespace zeroproof::reference
