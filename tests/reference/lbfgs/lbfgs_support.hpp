#pragma once
// Problems, closures and runs for the tests of L-BFGS.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "reference/lbfgs/lbfgs.hpp"
#include "tests/reference/support.hpp"

namespace zeroproof::tests {

/// Loss and gradient of an undistributed problem; x, g: [numel], without padding.
using Problem = std::function<double(const std::vector<float>& x, std::vector<float>& g)>;

/// Global indices of all tensor elements, in order.
inline std::vector<std::size_t> elements_of(const FlatLayout& layout) {
  std::vector<std::size_t> result;
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t i = 0; i < piece.numel; ++i)
      result.push_back(static_cast<std::size_t>(piece.global_begin + i));
  }
  return result;
}

/// Copies a rank's shard into an undistributed vector.
inline void place(Span<const float> shard, const std::vector<FlatRange>& ranges,
                  std::vector<float>& full) {
  std::size_t at = 0;
  for (const FlatRange& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) full[i] = shard[at++];
  }
  REQUIRE(at == shard.size());
}

/// Every rank gathers x, evaluates the whole problem and keeps its part: the bits cannot depend on
/// the shard map.
class GatheringClosure : public Closure {
 public:
  GatheringClosure(const FlatLayout& layout, const ShardMap& shards, Communicator& comm,
                   Problem problem)
      : elements_(elements_of(layout)),
        shards_(shards),
        comm_(comm),
        problem_(std::move(problem)) {}

 protected:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override {
    std::vector<std::vector<float>> parts;
    for (int rank = 0; rank < shards_.world_size(); ++rank) {
      parts.emplace_back(static_cast<std::size_t>(shards_.shard_numel(rank)));
    }
    std::vector<Span<std::byte>> recv;
    for (std::vector<float>& part : parts)
      recv.push_back(std::as_writable_bytes(Span<float>(part)));
    comm_.all_gather(std::as_bytes(master_shard), recv);

    const std::size_t padded = static_cast<std::size_t>(shards_.padded_numel());
    std::vector<float> full(padded), full_grad(padded, nan32);
    for (int rank = 0; rank < shards_.world_size(); ++rank) {
      place(parts[rank], shards_.shard(rank), full);
    }
    std::vector<float> x, g(elements_.size());
    for (const std::size_t i : elements_) x.push_back(full[i]);
    const double f = problem_(x, g);
    for (std::size_t i = 0; i < g.size(); ++i) full_grad[elements_[i]] = g[i];
    std::size_t at = 0;
    for (const FlatRange& range : shards_.shard(comm_.rank())) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        grad_shard[at++] = full_grad[i];
      }
    }
    return f;
  }

 private:
  std::vector<std::size_t> elements_;
  const ShardMap& shards_;
  Communicator& comm_;
  Problem problem_;
};

/// A state with its own memory, undistributed.
struct OwnedState {
  std::vector<float> master, grad_before, move;
  std::vector<std::vector<float>> steps, grad_changes;
  std::vector<double> rho;
  double h = 1;
  bool pending = false;
  bool started = false;
  std::int64_t iterations = 0;
  std::int64_t evaluations = 0;

  LbfgsState view() const {
    LbfgsState state;
    state.master = master;
    state.grad_before = grad_before;
    state.move = move;
    state.steps.assign(steps.begin(), steps.end());
    state.grad_changes.assign(grad_changes.begin(), grad_changes.end());
    state.rho = rho;
    state.h = h;
    state.pending = pending;
    state.started = started;
    state.iterations = iterations;
    state.evaluations = evaluations;
    return state;
  }

  /// Adds the parts of one rank.
  void add(const LbfgsState& part, const std::vector<FlatRange>& ranges, std::size_t padded_numel) {
    const auto put = [&](Span<const float> shard, std::vector<float>& full) {
      full.resize(padded_numel, nan32);
      place(shard, ranges, full);
    };
    put(part.master, master);
    REQUIRE(part.grad_before.size() == (part.pending ? part.master.size() : 0));
    REQUIRE(part.move.size() == (part.pending ? part.master.size() : 0));
    if (part.pending) put(part.grad_before, grad_before);
    if (part.pending) put(part.move, move);
    steps.resize(part.steps.size());
    grad_changes.resize(part.grad_changes.size());
    for (std::size_t i = 0; i < steps.size(); ++i) put(part.steps[i], steps[i]);
    for (std::size_t i = 0; i < steps.size(); ++i) put(part.grad_changes[i], grad_changes[i]);
    rho = part.rho;
    h = part.h;
    pending = part.pending;
    started = part.started;
    iterations = part.iterations;
    evaluations = part.evaluations;
  }
};

/// Bits of the elements of a vector, without padding; empty for an empty one.
inline std::vector<std::uint32_t> element_bits(const std::vector<float>& full,
                                               const FlatLayout& layout) {
  std::vector<std::uint32_t> result;
  if (full.empty()) return result;
  for (const std::size_t i : elements_of(layout)) result.push_back(bits(full[i]));
  return result;
}

inline void check_same_state(const OwnedState& a, const OwnedState& b, const FlatLayout& layout) {
  CHECK(element_bits(a.master, layout) == element_bits(b.master, layout));
  CHECK(element_bits(a.grad_before, layout) == element_bits(b.grad_before, layout));
  CHECK(element_bits(a.move, layout) == element_bits(b.move, layout));
  REQUIRE(a.steps.size() == b.steps.size());
  REQUIRE(a.grad_changes.size() == b.grad_changes.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    CHECK(element_bits(a.steps[i], layout) == element_bits(b.steps[i], layout));
    CHECK(element_bits(a.grad_changes[i], layout) == element_bits(b.grad_changes[i], layout));
    CHECK(bits(a.rho[i]) == bits(b.rho[i]));
  }
  CHECK(bits(a.h) == bits(b.h));
  CHECK(a.pending == b.pending);
  CHECK(a.started == b.started);
  CHECK(a.iterations == b.iterations);
  CHECK(a.evaluations == b.evaluations);
}

inline void check_same_report(const LbfgsReport& a, const LbfgsReport& b) {
  CHECK(a.end == b.end);
  CHECK(a.iterations == b.iterations);
  CHECK(a.evaluations == b.evaluations);
  CHECK(a.pairs_stored == b.pairs_stored);
  CHECK(a.pairs_skipped == b.pairs_skipped);
  CHECK(bits(a.first_loss) == bits(b.first_loss));
  CHECK(bits(a.loss) == bits(b.loss));
  CHECK(bits(a.max_abs_grad) == bits(b.max_abs_grad));
  CHECK(bits(a.gtd) == bits(b.gtd));
  CHECK(bits(a.step_length) == bits(b.step_length));
}

/// Results of some steps; reports of rank 0, after a check that the ranks agree.
struct LbfgsRun {
  std::vector<LbfgsReport> reports;
  std::vector<OwnedState> states;  // after every step
};

inline LbfgsRun run_lbfgs(const FlatLayout& layout, const ShardMap& shards, const LbfgsHyper& hyper,
                          const Problem& problem, const OwnedState& from, int num_steps) {
  const std::size_t num_ranks = static_cast<std::size_t>(shards.world_size());
  const std::size_t padded = static_cast<std::size_t>(layout.padded_numel());
  std::vector<std::vector<LbfgsReport>> reports(num_ranks);
  LbfgsRun run;
  run.states.resize(num_steps);
  std::mutex mutex;
  ThreadWorld world(shards.world_size());
  run_ranks(world, [&](Communicator& comm) {
    const std::unique_ptr<LbfgsOptimizer> optimizer =
        reference::make_lbfgs({&layout, &shards, &comm, hyper, {}});
    optimizer->load_state(from.view());
    GatheringClosure closure(layout, shards, comm, problem);
    for (int step = 0; step < num_steps; ++step) {
      const std::int64_t counted = closure.evaluations();
      const LbfgsReport report = optimizer->step(closure);
      const std::lock_guard<std::mutex> lock(mutex);
      REQUIRE(report.evaluations == closure.evaluations() - counted);
      reports[comm.rank()].push_back(report);
      run.states[step].add(optimizer->state(), shards.shard(comm.rank()), padded);
    }
  });
  for (const std::vector<LbfgsReport>& of_rank : reports) {
    for (std::size_t step = 0; step < of_rank.size(); ++step)
      check_same_report(of_rank[step], reports[0][step]);
  }
  run.reports = reports[0];
  return run;
}

/// An initial state with these elements.
inline OwnedState starting_at(const FlatLayout& layout, const std::vector<float>& x) {
  OwnedState state;
  state.master.assign(static_cast<std::size_t>(layout.padded_numel()), nan32);
  const std::vector<std::size_t> elements = elements_of(layout);
  REQUIRE(elements.size() == x.size());
  for (std::size_t i = 0; i < x.size(); ++i) state.master[elements[i]] = x[i];
  return state;
}

/// The elements of an undistributed vector.
inline std::vector<float> elements(const std::vector<float>& full, const FlatLayout& layout) {
  std::vector<float> result;
  for (const std::size_t i : elements_of(layout)) result.push_back(full[i]);
  return result;
}

/// Rosenbrock's valley for neighbouring elements: 100 (x1 - x0^2)^2 + (1 - x0)^2, for a last odd
/// element (1 - x)^2.
inline double rosenbrock(const std::vector<float>& x, std::vector<float>& g) {
  double f = 0;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    const double a = x[i];
    double slope = -2 * (1 - a);
    f = f + (1 - a) * (1 - a);
    if (i + 1 < x.size()) {
      const double bend = x[i + 1] - a * a;
      f = f + 100 * (bend * bend);
      slope = slope - 400 * (a * bend);
      g[i + 1] = static_cast<float>(200 * bend);
    }
    g[i] = static_cast<float>(slope);
  }
  return f;
}

/// 1 / x + x for x > 0, NaN elsewhere: a step too far leaves the domain.
inline double reciprocal(const std::vector<float>& x, std::vector<float>& g) {
  double f = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = x[i];
    f = f + (a > 0 ? 1 / a + a : nan64);
    g[i] = static_cast<float>(1 - 1 / (a * a));
  }
  return f;
}

}  // namespace zeroproof::tests
