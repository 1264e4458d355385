#include "cuda/reduce/reduce_tools.hpp"

#include <algorithm>
#include <array>

#include "cuda/host/base/stream_copy.hpp"

namespace zeroproof::cuda {
namespace {

/// Elements added at a time: a few buffers of this size fit into the first-level cache. Whole
/// chunks, so that the norm can be computed in the same pass.
constexpr std::int64_t fold_numel = 4096;
static_assert(host::block_numel % fold_numel == 0 && fold_numel % norm_chunk_numel == 0);

/// Scratch of one thread; it keeps the size of its largest use.
Span<float> scratch(std::size_t numel) {
  thread_local std::vector<float> values;
  if (values.size() < numel) values.resize(numel);
  return {values.data(), numel};
}

/// Address of the values of a range. Invalidated by the next call of the same thread.
Span<const host::GradStretch> operands(Span<const NodeValues> values, const Piece& stretch) {
  thread_local std::vector<host::GradStretch> from;
  from.clear();
  for (const NodeValues& one : values) from.push_back(one.operand(stretch));
  return from;
}

/// Whether the memory of a sum is one of its operands, and so in the caches anyway.
bool in_place(const FoldJob& job) {
  return std::ranges::any_of(job.operands, [&](const NodeValues& operand) {
    return operand.view().data == job.sum.view().data;
  });
}

/// One job of ReduceTools::run, with values computed before the first block.
class FoldRun {
 public:
  FoldRun(const ReduceTools& tools, const FoldJob& job, const FoldEpilogue& epilogue)
      : tools_(tools),
        job_(job),
        epilogue_(epilogue),
        streamed_(tools.streams && !in_place(job)),
        one_pass_(tools.ops.fused_fold != nullptr && (!epilogue || epilogue.one_pass())) {}

  /// Whether data is read again soon after it was written, so that blocks must be short.
  bool cached() const { return !one_pass_; }

  void run(const Exec& exec, const Piece& stretch) const {
    const Span<float> target = job_.sum.part<float>(stretch);
    if (one_pass_) {
      const Span<const host::GradStretch> from = operands(job_.operands, stretch);
      if (epilogue_) return epilogue_.fold(exec, *job_.plan, from, target, streamed_);
      return tools_.ops.fused_fold(exec, *job_.plan, from, target, streamed_);
    }
    std::array<float, fold_numel> near;
    const Span<float> sum = streamed_ ? Span<float>(near.data(), target.size()) : target;
    tools_.fold(exec, *job_.plan, job_.operands, stretch, sum);
    if (epilogue_) epilogue_.apply(exec, sum);
    if (streamed_) host::copy_streamed(exec, sum, target);
  }

 private:
  const ReduceTools& tools_;
  const FoldJob& job_;
  const FoldEpilogue& epilogue_;
  const bool streamed_;
  const bool one_pass_;
};

}  // namespace

void ReduceTools::widen(const Exec& exec, const host::GradStretch& from, Span<float> target) const {
  visit_param_format(from.dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    ops.widen(exec, Span<const T>(static_cast<const T*>(from.data), target.size()), target);
  });
}

void ReduceTools::fold(const Exec& exec, const host::FoldPlan& plan, Span<const NodeValues> values,
                       const Piece& block, Span<float> sum) const {
  const Span<const host::GradStretch> from = operands(values, block);
  if (ops.fused_fold != nullptr) return ops.fused_fold(exec, plan, from, sum, false);
  plan.run([&](Span<const float> left, Span<const float> right,
               Span<float> to) { ops.add_nodes(exec, left, right, to); },
           [&](const host::GradStretch& operand, Span<float> to) { widen(exec, operand, to); },
           from, scratch(static_cast<std::size_t>(plan.scratch_slots()) * sum.size()), sum);
}

void ReduceTools::run(const host::PieceLoop& loop, Span<const FoldJob> jobs,
                      const FoldEpilogue& epilogue) const {
  if (jobs.empty()) return;
  if (space().fold != nullptr) {
    for (const FoldJob& job : jobs) {
      if (epilogue.num_measured == nullptr || &job != &jobs.back()) {
        space().fold(loop, *job.plan, job.operands, job.sum);
        continue;
      }
      *epilogue.num_measured +=
          space().measured_fold(loop, *job.plan, job.operands, job.sum, epilogue.measurement);
    }
    return;
  }
  const FoldEpilogue none;
  std::vector<FoldRun> runs;
  for (const FoldJob& job : jobs)
    runs.emplace_back(*this, job, &job == &jobs.back() ? epilogue : none);
  const bool cached = runs.size() > 1 || std::ranges::any_of(runs, &FoldRun::cached);
  const std::int64_t numel = cached ? fold_numel : host::block_numel;
  const auto any_tensors = [](const Piece&, const Piece&) { return true; };
  loop.run_joined(setup.exec, any_tensors, [&](const Exec& exec, const Piece& block) {
    for (std::int64_t begin = 0; begin < block.numel; begin += numel) {
      const Piece stretch = block.part(begin, numel);
      for (const FoldRun& one : runs) one.run(exec, stretch);
    }
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
  if (space().kind == Space::device) {
    std::vector<Move> moves;
    for_runs(loop, leaf, target, [&](Span<std::byte> from, Span<std::byte> to) {
      moves.push_back({to.data(), from.data(), numel(from)});
    });
    return space().copy_many(moves);
  }
  loop.run(setup.exec, [&](const Exec& exec, const Piece& piece) {
    host::copy_bytes(exec, leaf.bytes(piece), target.bytes(piece), streams);
  });
}

void ReduceTools::forget(const host::PieceLoop& loop, const NodeValues& values) const {
  if (!memory.guarded()) return;
  for_runs(loop, values, values, [&](Span<std::byte> run, Span<std::byte>) {
    space().fill(run.data(), 0xFF, numel(run));
  });
}

}  // namespace zeroproof::cuda
