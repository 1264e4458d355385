#pragma once
// Inputs of the byte counts of a step: no values, no buffers. Memory and traffic are computed from
// them alone.

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/base/space.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/shard_map.hpp"
#include "common/step/param_scaling.hpp"
#include "common/step/policy.hpp"
#include "verification/tools/plan/predict/matrix_use.hpp"
#include "verification/tools/plan/predict/offload_bytes.hpp"
#include "verification/tools/plan/predict/part_lengths.hpp"

namespace zeroproof {

struct OptimizerSetup;
struct StepSettings;
class LayeredModel;

/// A bucket and its owners, or several adjacent ones that are equal except for their places and for
/// how much of them every TP rank has.
struct BucketShape {
  FlatRange range;                ///< of the first one
  std::int64_t owned = 0;         ///< elements of this rank, padding included
  std::int64_t owned_by_all = 0;  ///< of all ranks; less than the range where padding has no owner
  std::int64_t owners = 0;        ///< ranks that own something of it
  PartLengths others{};           ///< the parts of the other ranks
  PartLengths split{};            ///< of those, parts of more than one range
  std::int64_t split_here = 0;    ///< elements of this rank, if its part is of more than one range
  bool in_order =
      true;  ///< the parts, in rank order, follow each other from the start of the bucket
  std::int64_t tp_replicated =
      0;  ///< elements of tensors that every TP rank has whole, at most; 0 without TP
  std::int64_t tp_replicated_sum = 0;  ///< of all of the buckets
  std::int64_t count = 1;              ///< buckets; other figures are those of one

  FlatRange all() const { return {range.begin, range.begin + count * range.numel()}; }
  std::int64_t owned_by_others() const { return owned_by_all - owned; }
  /// Memory of all parts of more than one range in one message buffer.
  std::int64_t split_bytes(std::int64_t width) const {
    return split.packed_bytes(width) + next_part(width * split_here);
  }
  std::int64_t other_owners() const { return owners - (owned > 0 ? 1 : 0); }
};

/// Parameters that are gathered together: a unit, or the persistent tensors. A rank's part consists
/// of ranges that follow each other both in its shard and in the whole; padding is in none.
struct GatherShape {
  FlatRange range;          ///< of a unit
  std::int64_t owned = 0;   ///< elements of this rank
  std::int64_t all = 0;     ///< of all ranks
  PartLengths split{};      ///< of the ranks that have more than one stretch
  std::int64_t owners = 0;  ///< ranks that have elements
};

/// The properties of one rank in one run on which bytes depend.
struct PredictedStep {
  int stage = 0;
  int world_size = 1;  ///< ranks the state is sharded over
  int rank = 0;        ///< this one, among them
  int instances = 1;
  int instance = 0;
  int tp_size = 1;
  int cp = 1;  ///< CP ranks per micro-batch
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  GradSum grad_sum = GradSum::tree;
  bool overlap = false;
  Windows windows = Windows::off;
  Space space =
      Space::host;  ///< where the rank's buffers are; values that the host reads go over the host
  bool enqueued = false;  ///< on a device: the host reads nothing before the end of the step
  DType param_dtype = DType::bf16;
  DType grad_dtype = DType::fp32;
  std::int64_t micro_batches = 1;  ///< M
  int state_buffers = 2;           ///< buffers of the rule besides the master (R6)
  std::vector<StateFormat>
      state_formats;     ///< [state_buffers] their formats (R25); empty: all in fp32
  int master_bytes = 4;  ///< of an element
  std::int64_t state_blocks =
      0;  ///< blocks of state in which this rank has elements, if a format has scales
  std::int64_t cut_blocks =
      0;  ///< of all ranks, those that boundaries go through; their amax is joined
  NormForm norm = NormForm::chunk1024;
  std::int64_t clip_groups = 1;  ///< each with a norm
  bool trust_ratio = false;      ///< the rule adds up two norms per tensor (R6)
  bool has_matrices = false;     ///< the rule orthogonalises matrices (R28)
  MatrixUse matrices;            ///< of this rank
  bool counts_tokens = false;    ///< loss_reduction = tokens
  bool skips_missing = false;    ///< missing_grad = skip
  std::int64_t scale_blocks =
      0;  ///< that parameters in 8 bits have scales for, in all tensors (R24); 0 without
  std::int64_t scale_slots = 0;  ///< of the history of each, under the recipe delayed
  bool columnwise = false;       ///< whole parameters have a second copy
  std::int64_t column_blocks =
      0;  ///< that this copy has scales of its own for, in all tensors (R24); 0: it is the same codes
  std::int64_t scalar_sets =
      1;  ///< sets of step scalars: groups, or tensors under missing_grad = skip (R5)

  std::int64_t numel = 0;         ///< elements of all tensors
  std::int64_t padded_numel = 0;  ///< with padding
  std::int64_t num_tensors = 0;
  std::int64_t shard_numel = 0;  ///< of this rank, padding included
  std::vector<BucketShape>
      buckets;  ///< in increasing order; one that is in several units has its own entry
  std::vector<GatherShape> units;  ///< of a LayeredModel; empty: leaves come whole
  std::vector<int> visits;         ///< units in the order of the forward pass
  std::vector<bool> stays;  ///< [units] stage 3: has elements, and every tensor of it is persistent
  OffloadShape offload;     ///< of this rank
  GatherShape persistent;   ///< stage 3: tensors that stay whole on every rank, one after another

  bool layered() const { return !units.empty(); }
  /// Leaves stay on the rank that computed them until the last one of the step is computed (R11);
  /// CP parts that go into bins are added on their owners before.
  bool keeps_leaves() const {
    return grad_sum == GradSum::native || (stage <= 1 && (grad_sum == GradSum::tree || cp == 1));
  }
  /// Reductions of leaves that are not kept, one for each leaf of the rank with the most leaves.
  std::int64_t micro_steps() const {
    return (micro_batches * cp + data_ranks() - 1) / data_ranks();
  }
  bool strided() const {
    return order == MicroBatchOrder::strided || (order == MicroBatchOrder::by_stage && stage >= 2);
  }
  /// Ranks of comm read each other's leaves, nodes and shards in place. All of them are assumed to
  /// share memory.
  bool reads_in_place() const { return windows != Windows::off && world_size > 1; }
  /// Whole parameters are one copy for all ranks of comm, owned by the first one, and no rank has a
  /// separate shard.
  bool shares_params() const {
    return windows == Windows::params && reads_in_place() && (stage == 1 || stage == 2);
  }
  std::int64_t data_ranks() const { return std::int64_t{instances} * world_size; }
  /// Bytes of an element of a leaf that stays on its rank and is sent by itself, or read by others;
  /// parts of TP ranks are added to it in fp32.
  std::int64_t leaf_bytes() const { return tp_size > 1 ? 4 : num_bytes(grad_dtype); }
  /// Message bytes of one element in `nodes` nodes, of which `leaves` are leaves, sent in their own
  /// type.
  std::int64_t node_bytes(std::int64_t nodes, std::int64_t leaves) const {
    return 4 * nodes - (4 - leaf_bytes()) * leaves;
  }
  /// Of the buffers of the rule besides the master, for so many elements, and blocks with scales.
  std::int64_t state_bytes(std::int64_t elements, std::int64_t blocks) const;
  /// Buffers of state with scales.
  std::int64_t scaled_buffers() const;
  /// Ranges for which this rank keeps state: everything in stage 0.
  std::int64_t kept_numel() const { return stage == 0 ? padded_numel : shard_numel; }
};

/// Sets the fields of scales (R24). undistributed: settings of parameters in 8 bits, with the
/// layout of the undistributed tensors.
void set_scales(PredictedStep& shape, const StepSettings& undistributed);
/// The same of a rank, which may have parts of the tensors.
void set_scales(PredictedStep& shape, const OptimizerSetup& setup);
/// Sets state_formats and master_bytes.
void set_state_formats(PredictedStep& shape, const OptimizerHyper& hyper,
                       const StateFormats& formats);

/// A rank's part of a bucket of the contract's layout, whose length is a multiple of 1024.
FlatRange contract_slice(const FlatRange& bucket, int world_size, int rank);

/// Sets padded_numel, buckets and shard_numel for the contract's layout without a shard map: any
/// number of buckets and ranks in the time of one, as all buckets but the last are equal.
/// world_size and rank must be set.
/// Errors: invalid_argument as ShardMap's.
void set_contract_buckets(PredictedStep& shape, std::int64_t padded_numel,
                          std::int64_t bucket_numel);

/// Changes the shape to that of another rank: rank, shard_numel and its part of buckets. Call after
/// set_contract_buckets; units stay those of the rank before.
void set_contract_rank(PredictedStep& shape, int rank);

/// The same for any shard map; shape.world_size must be the map's.
void set_buckets(PredictedStep& shape, const ShardMap& shards);

/// Counts the elements of a tensor that every TP rank has whole. Call after the buckets are set,
/// and split where it begins and ends.
void add_tp_replicated(PredictedStep& shape, const FlatRange& elements);

/// Owners of a stretch of the global numbering, for one walk over a layout from its start.
class Ownership {
 public:
  /// in_shard: where the part begins in its owner's shard.
  using Use = std::function<void(int rank, const FlatRange& part, std::int64_t in_shard)>;

  virtual ~Ownership() = default;
  /// Parts of `stretch` with their owners, in increasing order; padding without an owner is left
  /// out.
  virtual void parts(const FlatRange& stretch, const Use& use) const = 0;
};

/// Of any shard map, which must outlive it.
class MapOwnership final : public Ownership {
 public:
  explicit MapOwnership(const ShardMap& shards);
  void parts(const FlatRange& stretch, const Use& use) const override;

 private:
  struct Owned {
    FlatRange range;
    int rank;
    std::int64_t in_shard;
  };
  std::vector<Owned> owned_;  // in increasing order
};

/// Sets units, visits and the persistent tensors, for some ranks of one run: stage 3 keeps tensors
/// of 1 to persistent_numel elements whole on every rank. units, visits: as LayeredModel's, empty
/// for leaves that come whole.
void set_units(const std::vector<PredictedStep*>& ranks, const FlatLayout& layout,
               const Ownership& ownership, const std::vector<FlatRange>& units,
               const std::vector<int>& visits, std::int64_t persistent_numel);

/// Everything from a setup. model: the layered model of the leaf source, null if leaves come whole.
/// Collective over tp, if state has scales or the rule has matrices.
/// Errors: invalid_argument if layout, shard map or communicator is missing.
PredictedStep predicted_step(const OptimizerSetup& setup, const LayeredModel* model = nullptr);

/// The same run with its buffers in the memory of devices, which has no windows. enqueued: whole
/// steps, as device-fused and device-graph run them without an observer of phases; otherwise phase
/// by phase.
void put_on_device(PredictedStep& shape, bool enqueued);

/// fp32 buffers that a rule keeps besides the master (R6): from 0, sgd without momentum, to 3, with
/// amsgrad.
int state_buffer_count(const OptimizerHyper& hyper);

/// Micro-batches of a data rank in increasing order (R11), with CP ranks as in R11's context
/// parallelism.
std::vector<std::int64_t> micro_batches_of(const PredictedStep& shape, std::int64_t data_rank);

/// Bytes of R11's bins: hi and lo, and top padded to a word for every four elements.
inline std::int64_t bin_bytes(std::int64_t numel) { return 8 * numel + (numel + 3) / 4 * 4; }

}  // namespace zeroproof
