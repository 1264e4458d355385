#include <array>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/lbfgs/lbfgs_optimizer.hpp"

namespace zeroproof::reference {

void Lbfgs::check_state(const LbfgsState& full) const {
  const std::size_t numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  const char* const what = "loading the state of L-BFGS";
  check_same_numel(what, "the layout", numel, "master", full.master.size());
  const std::size_t of_move = full.pending ? numel : 0;
  check_same_numel(what, "the state", of_move, "grad_before", full.grad_before.size());
  check_same_numel(what, "the state", of_move, "move", full.move.size());
  check_same_numel(what, "rho", full.rho.size(), "steps", full.steps.size());
  check_same_numel(what, "rho", full.rho.size(), "grad_changes", full.grad_changes.size());
  for (const Span<const float> s : full.steps)
    check_same_numel(what, "the layout", numel, "a step", s.size());
  for (const Span<const float> y : full.grad_changes) {
    check_same_numel(what, "the layout", numel, "a gradient change", y.size());
  }
  ZP_CHECK(static_cast<std::int64_t>(full.rho.size()) <= setup_.hyper.history_size,
           ErrorCode::invalid_argument,
           "the state of L-BFGS has " + std::to_string(full.rho.size()) + " pairs and " +
               std::to_string(setup_.hyper.history_size) + " are kept",
           "leaving some out would change the next direction",
           "load with the history_size of the run that saved it");
  ZP_CHECK(full.iterations >= 0 && full.evaluations >= 0, ErrorCode::invalid_argument,
           "the state of L-BFGS counts " + std::to_string(full.iterations) + " iterations and " +
               std::to_string(full.evaluations) + " evaluations",
           "both count from 0", "load a state that an optimizer has given");
}

void Lbfgs::load_state(const LbfgsState& full) {
  check_state(full);
  x_ = vectors_.shard_of(full.master);
  grad_before_ = full.pending ? vectors_.shard_of(full.grad_before) : vectors_.make();
  move_ = full.pending ? vectors_.shard_of(full.move) : vectors_.make();
  std::deque<LbfgsPair> pairs;
  for (std::size_t i = 0; i < full.rho.size(); ++i) {
    pairs.push_back({vectors_.shard_of(full.steps[i]), vectors_.shard_of(full.grad_changes[i]), full.rho[i]});
  }
  memory_ = LbfgsMemory(setup_.hyper.history_size, std::move(pairs), full.h);
  pending_ = full.pending;
  started_ = full.started;
  iterations_ = full.iterations;
  evaluations_ = full.evaluations;
  loaded_ = true;
}

LbfgsState Lbfgs::state() const {
  LbfgsState result;
  result.master = x_;
  if (pending_) {
    result.grad_before = grad_before_;
    result.move = move_;
  }
  for (const LbfgsPair& pair : memory_.pairs()) {
    result.steps.push_back(pair.s);
    result.grad_changes.push_back(pair.y);
    result.rho.push_back(pair.rho);
  }
  result.h = memory_.h();
  result.pending = pending_;
  result.started = started_;
  result.iterations = iterations_;
  result.evaluations = evaluations_;
  return result;
}

}  // namespace zeroproof::reference
