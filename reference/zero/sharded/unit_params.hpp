#pragma once
// Parameters of the unit whose layer computes. In stages 0, 1 and 2 every rank has all parameters;
// in stage 3 a unit is gathered before its layer computes and released afterwards [ZeRO:units].

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/flat_ranges.hpp"

namespace zeroproof::reference {

/// Buffer of a unit with the version of its parameters: the number of casts so far.
class GatheredUnit {
 public:
  GatheredUnit() = default;
  GatheredUnit(std::int64_t numel, DType dtype) : buffer_(numel, dtype) {}

  /// Buffer for parameters of this version, [numel].
  TensorView open(std::uint64_t version);

  /// Parameters for the layer, [numel]. Errors: internal unless parameters of `version` were
  /// gathered.
  TensorView read(std::uint64_t version) const;

  /// Fills the buffer with NaN, so that late reads become visible.
  void release();

 private:
  GuardedBuffer buffer_;
  bool gathered_ = false;
  std::uint64_t version_ = 0;
};

/// The parameters of an optimizer.
struct ParamSource {
  RangedView shard;  // the elements this rank owns
  RangedView full;   // the elements every rank has: all, in stage 3 the persistent tensors
  const std::uint64_t* version = nullptr;  // the optimizer's current count of casts
  Span<const float> scale_inv = {};        // of all blocks, with 8-bit parameters
};

/// Tensors that stage 3 stores whole on every rank: those of at most persistent_numel elements,
/// padding not included.
FlatRanges persistent_ranges(const OptimizerSetup& setup);

class UnitParams {
 public:
  UnitParams(const OptimizerSetup& setup, std::vector<FlatRange> units, ParamSource source);

  /// Collective over setup.comm in stage 3, otherwise no communication.
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
