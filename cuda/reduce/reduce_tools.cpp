#include "cuda/reduce/reduce_tools.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda/host/stream_copy.hpp"

namespace zeroproof::cuda {
namespace {

/// Elements added at a time: a few buffers of this size live in the first-level cache. Whole chunks, so that the norm
/// can be found on the way.
constexpr std::int64_t fold_numel = 4096;
static_assert(host::block_numel % fold_numel == 0 && fold_numel % norm_chunk_numel == 0);

/// Scratch of one thread; it keeps the size of its largest use.
Span<float> scratch(std::size_t numel) {
  thread_local std::vector<float> values;
  if (values.size() < numel) values.resize(numel);
  return {values.data(), numel};
}

template <class Body>
void for_stretches(const Piece& block, std::int64_t numel, const Body& body) {
  for (std::int64_t begin = 0; begin < block.numel; begin += numel) {
    Piece stretch = block;
    stretch.tensor_begin += begin;
    stretch.global_begin += begin;
    stretch.local_begin += begin;
    stretch.numel = std::min(numel, block.numel - begin);
    body(stretch);
  }
}

/// Whether the memory of a sum is read for it, and so in the caches anyway.
bool in_place(const FoldJob& job) {
  return std::ranges::any_of(
      job.operands, [&](const NodeValues& operand) { return operand.view().data == job.sum.view().data; });
}

/// Whether the sum is one operand's bits.
bool copies(const FoldJob& job) {
  return job.operands.size() == 1 && job.operands.front().view().dtype == DType::fp32;
}

}  // namespace

void ReduceTools::widen(const Exec& exec, const host::FoldOperand& from, Span<float> target) const {
  visit_param_format(from.dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    ops.widen(exec, Span<const T>(static_cast<const T*>(from.data), target.size()), target);
  });
}

void ReduceTools::fold(const Exec& exec, const host::FoldPlan& plan, Span<const NodeValues> operands,
                       const Piece& block, Span<float> sum) const {
  thread_local std::vector<host::FoldOperand> from;
  from.clear();
  for (const NodeValues& values : operands) from.push_back(values.operand(block));
  plan.run([&](Span<const float> left, Span<const float> right,
               Span<float> to) { ops.add_nodes(exec, left, right, to); },
           [&](const host::FoldOperand& operand, Span<float> to) { widen(exec, operand, to); }, from,
           scratch(static_cast<std::size_t>(plan.scratch_slots()) * sum.size()), sum);
}

void ReduceTools::run(const host::PieceLoop& loop, Span<const FoldJob> jobs, const SeeSum& see) const {
  if (jobs.empty()) return;
  std::vector<bool> streamed;
  bool cached = false;  // something is read again soon after it was written
  for (const FoldJob& job : jobs) {
    streamed.push_back(streams && !in_place(job));
    cached = cached || (streamed.back() && !copies(job)) || job.operands.size() > 2;
  }
  const std::int64_t numel = cached || jobs.size() > 1 || see ? fold_numel : host::block_numel;
  const auto run_job = [&](const Exec& exec, std::size_t i, const Piece& stretch, const SeeSum& seen) {
    const FoldJob& job = jobs[i];
    const Span<float> target = job.sum.part<float>(stretch);
    if (!streamed[i]) {
      fold(exec, *job.plan, job.operands, stretch, target);
      if (seen) seen(exec, target);
      return;
    }
    if (copies(job)) {
      const Span<const float> values = job.operands.front().part<const float>(stretch);
      if (seen) seen(exec, values);
      return host::copy_streamed(exec, values, target);
    }
    std::array<float, fold_numel> near;
    const Span<float> sum(near.data(), target.size());
    fold(exec, *job.plan, job.operands, stretch, sum);
    if (seen) seen(exec, sum);
    host::copy_streamed(exec, sum, target);
  };
  const SeeSum nobody;
  const auto any_tensors = [](const Piece&, const Piece&) { return true; };
  loop.run_joined(setup.exec, any_tensors, [&](const Exec& exec, const Piece& block) {
    for_stretches(block, numel, [&](const Piece& stretch) {
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        run_job(exec, i, stretch, i + 1 == jobs.size() ? see : nobody);
      }
    });
  });
}

void ReduceTools::put_leaf(const host::PieceLoop& loop, const NodeValues& leaf,
                           const NodeValues& target) const {
  const bool same = leaf.view().dtype == target.view().dtype;
  if (same && leaf.origin() == target.origin()) return;
  if (target.view().dtype == DType::fp32) {
    const host::FoldPlan itself({{0, 0}});
    const FoldJob job{&itself, {leaf}, target};
    return run(loop, {&job, 1});
  }
  loop.run(setup.exec, [&](const Exec& exec, const Piece& piece) {
    host::copy_bytes(exec, leaf.bytes(piece), target.bytes(piece), streams);
  });
}

void ReduceTools::forget(const host::PieceLoop& loop, const NodeValues& values) const {
  if (!memory.guarded()) return;
  loop.run(setup.exec, [&](const Exec&, const Piece& piece) {
    const Span<float> part = values.part<float>(piece);
    std::memset(part.data(), 0xFF, part.size_bytes());
  });
}

}  // namespace zeroproof::cuda
