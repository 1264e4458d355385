#include "cuda/lbfgs/lbfgs_memory.hpp"

#include <algorithm>

namespace zeroproof::cuda {

void LbfgsMemory::load(const LbfgsState& full, const std::vector<Piece>& pieces,
                       const LbfgsVectors& vectors) {
  const auto load = [&](Span<const float> from, const GuardedBuffer& to) {
    for (const Piece& piece : pieces) {
      std::copy_n(from.begin() + piece.global_begin, piece.numel,
                  to.as<float>().begin() + piece.local_begin);
    }
  };
  load(full.master, master);
  if (full.pending) {
    load(full.grad_before, grad_before);
    load(full.move, move);
  }
  pairs.clear();
  for (std::size_t i = 0; i < full.rho.size(); ++i) {
    pairs.push_back({vectors.make(), vectors.make(), full.rho[i]});
    load(full.steps[i], pairs.back().s);
    load(full.grad_changes[i], pairs.back().y);
  }
  h = full.h;
  pending = full.pending;
  started = full.started;
  iterations = full.iterations;
  evaluations = full.evaluations;
}

LbfgsState LbfgsMemory::state() const {
  LbfgsState state;
  state.master = master.as<float>();
  if (pending) {
    state.grad_before = grad_before.as<float>();
    state.move = move.as<float>();
  }
  for (const Pair& pair : pairs) {
    state.steps.emplace_back(pair.s.as<float>());
    state.grad_changes.emplace_back(pair.y.as<float>());
    state.rho.push_back(pair.rho);
  }
  state.h = h;
  state.pending = pending;
  state.started = started;
  state.iterations = iterations;
  state.evaluations = evaluations;
  return state;
}

}  // namespace zeroproof::cuda
