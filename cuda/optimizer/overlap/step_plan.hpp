#pragma once
// One micro-step of a layer-by-layer pass as data: operations, their streams, their order and their
// buffers.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof::cuda {

/// allocate       a buffer is allocated, filled with NaN
/// gather         whole parameters of a unit from the shards; collective
/// check_version  the gathered parameters are those of the latest cast
/// forward        one forward visit of a unit
/// release        the gathered parameters of a unit are freed
/// backward       one backward visit of a unit
/// ready          the gradient of a unit is complete: its parts are copied to the buckets that have
///                a buffer of their own
/// reduce         the gradient of a bucket is passed to the BucketSink; collective
/// free           a gradient is freed
enum class OpKind : std::uint8_t {
  allocate,
  gather,
  check_version,
  forward,
  release,
  backward,
  ready,
  reduce,
  free
};

enum class PlanStream : std::uint8_t { compute, comm };
inline constexpr int num_plan_streams = 2;

enum class BufferKind : std::uint8_t {
  unit_param,  ///< [unit numel] in the parameter dtype
  unit_grad,   ///< [unit numel] in the gradient dtype
  bucket_grad  ///< [bucket numel] in the gradient dtype; only of buckets that span several units
};

struct PlanBuffer {
  BufferKind kind = BufferKind::unit_param;
  int index = 0;  ///< unit or bucket
  auto operator<=>(const PlanBuffer&) const = default;
};

struct PlanOp {
  OpKind kind = OpKind::allocate;
  PlanStream stream = PlanStream::compute;
  PlanBuffer target;               ///< its subject: a unit, or (reduce) a bucket
  std::vector<PlanBuffer> reads;   ///< contents it uses
  std::vector<PlanBuffer> writes;  ///< contents it changes; allocation and freeing count
  std::vector<int> waits;          ///< events that must have been recorded before it starts
  int records = -1;                ///< event recorded when it has ended; -1: none
};

/// Operations in the order in which they are enqueued. Each stream runs its own in order; between
/// the streams only events define an order.
struct StepPlan {
  std::vector<PlanOp> ops;
  /// Alive before and after, never written: whole or persistent parameters.
  std::vector<PlanBuffer> resident;
  int num_events = 0;
};

/// Input of a plan. It is the same on every rank, and so is the plan.
struct LayerSchedule {
  std::vector<FlatRange> units;    ///< neighbours, together all elements (LayeredModel::units)
  std::vector<int> visits;         ///< LayeredModel::visits
  std::vector<FlatRange> buckets;  ///< neighbours, together all elements (ShardMap::buckets)
  int stage = 3;                   ///< 2: parameters are whole and nothing is gathered; 3
  bool overlap = false;            ///< false: all operations are on the compute stream
  /// [units] stage 3: whole on every rank, not gathered here; empty: none.
  std::vector<bool> persistent;
};

/// The plan of one micro-step.
///
/// The unit visits of a micro-step are visits() and then visits() backwards. Neighbouring visits of
/// the same unit share one gather, so the unit of the last forward visit is kept for the first
/// backward visit; otherwise every visit of a tied unit gathers it again. With overlap the next
/// unit is gathered while the present one computes, and at most two are alive.
///
/// A unit's gradient is alive from its first backward visit until its buckets are reduced. `ready`
/// follows its last backward visit; with overlap the gather for the visit after the next one is
/// launched in between, because the compute stream waits for that gather before any operation waits
/// for the reduction. Buckets are reduced in the order in which they become complete, and from the
/// last to the first where one unit completes several. Without overlap gradients are freed right
/// after that; with overlap the gradients completed by backward visit m are freed before the
/// allocations of visit m + 2, after an explicit wait, or at the end.
///
/// Every allocate, release and free is on the compute stream, so lifetimes do not depend on timing
/// (table in cuda/README.md). Waits are placed only where an operation needs one: without any one
/// of them two operations on the same buffer are not ordered.
///
/// A plan starts with the resident buffers only and ends with them only, and both streams end with
/// it. Parameters change between plans only, so no gather can be launched before the parameters it
/// reads are valid.
///
/// Errors   invalid_argument if the units or buckets are not neighbours from 0 on to the same end, a visit
///          names no unit, a unit with elements is never visited, `persistent` has another length, or the
///          stage is neither 2 nor 3.
StepPlan make_plan(const LayerSchedule& shape);

std::string_view name(OpKind kind);
std::string_view name(PlanStream stream);
std::string name(const PlanBuffer& buffer);  ///< "gradient of unit 3"
std::string name(const PlanOp& op);          ///< "backward of unit 3"

}  // namespace zeroproof::cuda
