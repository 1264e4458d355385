#pragma once
// The memory of a rank's buffers with its operations, as one table with the same entries for host
// and device. On a device everything is enqueued on the current stream of the host thread.

#include <cstddef>
#include <cstdint>

#include "common/base/guarded_buffer.hpp"
#include "common/base/space.hpp"
#include "common/base/span.hpp"
#include "cuda/comm/memory/node_values.hpp"
#include "cuda/device/kernels/bulk/batched_copy.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda {

namespace device {
struct GradMeasurement;
}

using device::Move;

/// The fields of binned sums, with one placement (contracts/binned_sum.hpp).
struct PlacedBins {
  NodeValues hi, lo, top;
};

struct MemorySpace {
  using FillFn = void(void* data, unsigned char byte, std::int64_t num_bytes);
  using CopyFn = void(void* to, const void* from, std::int64_t num_bytes);
  using CopyManyFn = void(Span<const Move> moves);
  using WaitFn = void();
  using LocationFn = bool(const void* data);
  using FoldFn = void(const host::PieceLoop& loop, const host::FoldPlan& plan,
                      Span<const NodeValues> operands, const NodeValues& sum);
  using MeasuredFoldFn = std::int64_t(const host::PieceLoop& loop, const host::FoldPlan& plan,
                                      Span<const NodeValues> operands, const NodeValues& sum,
                                      const device::GradMeasurement& measurement);
  using DepositFn = void(const host::PieceLoop& loop, const NodeValues& leaf,
                         const PlacedBins& bins);
  using MergeFn = void(const host::PieceLoop& loop, const PlacedBins& from, const PlacedBins& into);
  using FinishFn = void(const host::PieceLoop& loop, const PlacedBins& bins,
                        const NodeValues& result);

  Space kind = Space::host;
  const ForeignMemory* memory = nullptr;  ///< null: the host's own

  FillFn* fill = nullptr;
  CopyFn* copy = nullptr;
  /// In no order: no move may read or write memory that another one writes.
  CopyManyFn* copy_many = nullptr;
  /// From any host memory, which may be reused immediately.
  CopyFn* from_host = nullptr;
  /// To any host memory, which must exist until the next `wait`, which fills it.
  CopyFn* to_host = nullptr;
  /// Until all enqueued work is done. Errors: those of the work; nothing is filled any more.
  WaitFn* wait = nullptr;
  /// Location of foreign memory: in this space, or readable by the host. Null on the host, which
  /// cannot check.
  LocationFn *is_in_space = nullptr, *is_on_host = nullptr;

  // Over all pieces of a loop at once. Null on the host, where callers add block by block and
  // measure values while they are in the caches (reduce/reduce_tools, reduce/binned_sum).
  FoldFn* fold =
      nullptr;  ///< sum = the operands, widened and added as the plan says; sum may be one of them
  MeasuredFoldFn* measured_fold =
      nullptr;                   ///< the same, measured; returns the number of measured elements
  DepositFn* deposit = nullptr;  ///< adds a micro-batch gradient to bins
  MergeFn* merge = nullptr;      ///< adds the bins of other gradients
  FinishFn* finish = nullptr;    ///< bins as fp32
};

const MemorySpace& host_space();

/// Errors of its entries: unavailable if this program has no device code or the device has no free
/// memory; errors of earlier work.
const MemorySpace& device_space();

inline const MemorySpace& space_of(Space kind) {
  return kind == Space::device ? device_space() : host_space();
}

/// Calls body(source bytes, target bytes) for the bytes of every piece that two sets of values of
/// one type contain; adjacent ones are joined.
template <class Body>
void for_runs(const host::PieceLoop& loop, const NodeValues& from, const NodeValues& to,
              const Body& body) {
  Span<std::byte> source, target;
  for (const Piece& piece : loop.blocks()) {
    const Span<std::byte> next = from.bytes(piece);
    const Span<std::byte> next_target = to.bytes(piece);
    if (!source.empty() && source.data() + source.size() == next.data() &&
        target.data() + target.size() == next_target.data()) {
      source = {source.data(), source.size() + next.size()};
      target = {target.data(), target.size() + next_target.size()};
      continue;
    }
    if (!source.empty()) body(source, target);
    source = next;
    target = next_target;
  }
  if (!source.empty()) body(source, target);
}

}  // namespace zeroproof::cuda
