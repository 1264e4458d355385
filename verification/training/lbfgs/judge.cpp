#include "verification/training/lbfgs/judge.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "verification/compare/hint.hpp"
#include "verification/training/lbfgs/sharded_point.hpp"

namespace zeroproof::verification {
namespace {

std::string indexed(const char* name, std::size_t i) {
  return name + ("[" + std::to_string(i) + "]");
}

TensorView view_of(Span<const float> values) {
  return {const_cast<float*>(values.data()), DType::fp32, numel(values)};  // comparisons only read
}

}  // namespace

LbfgsJudge::LbfgsJudge(const LbfgsSetup& place, std::string what)
    : layout_(*place.layout),
      pieces_(own_pieces(place)),
      shard_numel_(place.shards->shard_numel(place.comm->rank())),
      rank_(place.comm->rank()),
      num_ranks_(place.comm->world_size()),
      what_(std::move(what)) {
  for (const Piece& piece : pieces_)
    runs_.push_back({piece.global_begin, piece.local_begin, piece.numel});
}

Divergence LbfgsJudge::place(const std::string& buffer) const {
  Divergence d;
  d.step = step_;
  d.phase.reset();
  d.rank = rank_;
  d.buffer = buffer;
  d.what = what_ + when_;
  return d;
}

void LbfgsJudge::refuse(const std::string& buffer, const std::string& what) {
  begin_comparison();
  Divergence d = place(buffer);
  d.what = what;
  judge_.note(std::move(d), 1);
}

void LbfgsJudge::begin_comparison() {
  if (!judge_.first()) ++order_;
}

void LbfgsJudge::begin_step(std::int64_t step, const SavedStep& truth) {
  step_ = step;
  when_.clear();
  truth_ = &truth;
  evaluations_ = 0;
  if (!judge_.first()) order_ = 0;
}

void LbfgsJudge::evaluation(Span<const float> point, double loss, Span<const float> grad) {
  const std::size_t e = evaluations_++;
  if (e >= truth_->evaluations.size()) {
    return refuse(indexed("point", e), "is an evaluation that the reference does not have");
  }
  const SavedEvaluation& want = truth_->evaluations[e];
  vector(indexed("point", e), want.point, point);
  number(indexed("loss", e), want.loss, loss);
  vector(indexed("grad", e), want.grad, grad);
}

void LbfgsJudge::report(const LbfgsReport& got) {
  const LbfgsReport& want = truth_->report;
  count("report.evaluations", want.evaluations, got.evaluations);
  count("report.iterations", want.iterations, got.iterations);
  count("report.pairs_stored", want.pairs_stored, got.pairs_stored);
  count("report.pairs_skipped", want.pairs_skipped, got.pairs_skipped);
  number("report.first_loss", want.first_loss, got.first_loss);
  number("report.loss", want.loss, got.loss);
  number("report.max_abs_grad", want.max_abs_grad, got.max_abs_grad);
  number("report.gtd", want.gtd, got.gtd);
  number("report.step_length", want.step_length, got.step_length);
  count("report.end", static_cast<std::int64_t>(want.end), static_cast<std::int64_t>(got.end));
}

void LbfgsJudge::state(std::int64_t step, const LbfgsState& want, const LbfgsState& got,
                       const std::string& when) {
  step_ = step;
  when_ = when;
  vector("master", want.master, got.master);
  count("pending", want.pending ? 1 : 0, got.pending ? 1 : 0);
  count("started", want.started ? 1 : 0, got.started ? 1 : 0);
  count("iterations", want.iterations, got.iterations);
  count("evaluations", want.evaluations, got.evaluations);
  number("h", want.h, got.h);
  count("num_pairs", static_cast<std::int64_t>(want.rho.size()),
        static_cast<std::int64_t>(got.rho.size()));
  const std::size_t pairs =
      std::min({want.rho.size(), got.rho.size(), got.steps.size(), got.grad_changes.size()});
  for (std::size_t i = 0; i < pairs; ++i) {
    number(indexed("rho", i), want.rho[i], got.rho[i]);
    vector(indexed("steps", i), want.steps[i], got.steps[i]);
    vector(indexed("grad_changes", i), want.grad_changes[i], got.grad_changes[i]);
  }
  if (!want.pending || !got.pending) return;
  vector("grad_before", want.grad_before, got.grad_before);
  vector("move", want.move, got.move);
}

/// Hint about a vector: the elements of both sides on this rank, concatenated.
std::string LbfgsJudge::hint_of(Span<const float> want, Span<const float> got) const {
  std::vector<float> wanted;
  std::vector<float> gotten;
  for (const ElementRun& run : runs_) {
    const auto part = [&](Span<const float> of, std::int64_t begin) {
      return of.subspan(begin, run.numel);
    };
    const Span<const float> ours = part(want, run.want);
    const Span<const float> theirs = part(got, run.got);
    wanted.insert(wanted.end(), ours.begin(), ours.end());
    gotten.insert(gotten.end(), theirs.begin(), theirs.end());
  }
  HintEvidence evidence;
  evidence.want = view_of(wanted);
  evidence.got = view_of(gotten);
  return hint(evidence);
}

/// want: [padded_numel]; got: [shard_numel].
void LbfgsJudge::vector(const std::string& buffer, Span<const float> want, Span<const float> got) {
  if (numel(got) != shard_numel_) {
    return refuse(buffer, "has " + std::to_string(got.size()) + " elements, and the shard " +
                              std::to_string(shard_numel_));
  }
  begin_comparison();
  for (const ElementRun& run : runs_) judge_.see(view_of(got), run.got, run.numel);
  judge_.count(compare_runs(view_of(want), view_of(got), runs_), DType::fp32, place(buffer),
               [&](Divergence& d, std::int64_t first, std::int64_t last) {
                 d.hint = hint_of(want, got);
                 for (const Piece& piece : pieces_) {
                   const auto inside = [&](std::int64_t i) {
                     return i >= piece.local_begin && i < piece.local_begin + piece.numel;
                   };
                   if (inside(last))
                     d.last_global_index = last - piece.local_begin + piece.global_begin;
                   if (!inside(first)) continue;
                   d.global_index = first - piece.local_begin + piece.global_begin;
                   d.parameter = layout_.tensors()[piece.tensor].name;
                   d.coordinates = layout_.coordinates(d.global_index);
                 }
               });
}

void LbfgsJudge::number(const std::string& buffer, double want, double got) {
  scalar(buffer, DType::fp64, std::bit_cast<std::uint64_t>(want),
         std::bit_cast<std::uint64_t>(got));
}

void LbfgsJudge::count(const std::string& buffer, std::int64_t want, std::int64_t got) {
  scalar(buffer, DType::u64, static_cast<std::uint64_t>(want), static_cast<std::uint64_t>(got),
         Meaning::count);
}

void LbfgsJudge::scalar(const std::string& buffer, DType dtype, std::uint64_t want,
                        std::uint64_t got, Meaning meaning) {
  begin_comparison();
  HintEvidence evidence;
  evidence.want = {&want, dtype, 1};
  evidence.got = {&got, dtype, 1};
  evidence.factors = {{"the number of ranks", static_cast<double>(num_ranks_)}};
  evidence.meaning = meaning;
  judge_.see(evidence.got, 0, 1);
  judge_.count(compare(evidence.want, evidence.got, 0, 1), dtype, place(buffer),
               [&](Divergence& d, std::int64_t, std::int64_t) { d.hint = hint(evidence); });
}

}  // namespace zeroproof::verification
