// Ranks that differ are named in the error of every rank.

#include <algorithm>
#include <bit>

#include "tests/reference/lbfgs/lbfgs_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// A loss that needs no communication: every rank has f = 1 and g = 1. The rank `planted` evaluates
/// once more, or returns another f.
class LocalClosure final : public Closure {
 public:
  LocalClosure(int rank, int twice, int other) : twice_(rank == twice), other_(rank == other) {}

 private:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override {
    if (twice_ && evaluations() == 2) evaluate(master_shard, grad_shard);
    std::ranges::fill(grad_shard, 1.0F);
    return other_ && evaluations() == 2 ? std::nextafter(1.0, 2.0) : 1.0;
  }

  bool twice_, other_;
};

/// The error of a step when one rank of four differs; "" if there is none.
std::string complaint(int twice, int other,
                      const std::function<void(int rank, LbfgsHyper&, OwnedState&)>& change) {
  const FlatLayout layout({{"x", {5000}}});
  const ShardMap shards(layout.padded_numel(), 4, 1024);
  std::vector<std::string> messages(4);
  ThreadWorld world(4);
  run_ranks(world, [&](Communicator& comm) {
    LbfgsHyper hyper;
    hyper.max_iter = 2;
    OwnedState state = starting_at(layout, std::vector<float>(5000, 2.0F));
    change(comm.rank(), hyper, state);
    const std::unique_ptr<LbfgsOptimizer> optimizer =
        reference::make_lbfgs({&layout, &shards, &comm, hyper, {}});
    optimizer->load_state(state.view());
    LocalClosure closure(comm.rank(), twice, other);
    std::string& message = messages[comm.rank()];
    try {
      optimizer->step(closure);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::comm);
      message = error.what();
    }
  });
  for (const std::string& message : messages) CHECK(message == messages[0]);
  return messages[0];
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("lbfgs agreement: a rank that differs is named on every rank") {
  const auto same = [](int, LbfgsHyper&, OwnedState&) {};
  CHECK(complaint(-1, -1, same).empty());
  CHECK(contains(complaint(2, -1, same), "numbers of evaluations in this step of rank 2 differ"));
  CHECK(contains(complaint(-1, 3, same), "the losses of rank 3 differ"));
  CHECK(contains(complaint(-1, 0, same), "the losses of ranks 1, 2 and 3 differ"));

  const auto complains = [](const std::string& setting, auto change) {
    const std::string message =
        complaint(-1, -1, [&](int rank, LbfgsHyper& hyper, OwnedState& state) {
          if (rank == 1) change(hyper, state);
        });
    CHECK(contains(message, "the values of " + setting + " of rank 1 differ"));
  };
  complains("hyper.lr", [](LbfgsHyper& h, OwnedState&) { h.lr = std::nextafter(1.0, 2.0); });
  complains("hyper.max_iter", [](LbfgsHyper& h, OwnedState&) { h.max_iter = 3; });
  complains("hyper.max_eval", [](LbfgsHyper& h, OwnedState&) { h.max_eval = 1; });
  complains("hyper.tolerance_grad", [](LbfgsHyper& h, OwnedState&) { h.tolerance_grad = 0; });
  complains("hyper.tolerance_change", [](LbfgsHyper& h, OwnedState&) { h.tolerance_change = 0; });
  complains("hyper.history_size", [](LbfgsHyper& h, OwnedState&) { h.history_size = 2; });
  complains("hyper.line_search",
            [](LbfgsHyper& h, OwnedState&) { h.line_search = LineSearch::armijo; });
  complains("hyper.max_ls", [](LbfgsHyper& h, OwnedState&) { h.max_ls = 2; });
  complains("state.h", [](LbfgsHyper&, OwnedState& s) { s.h = 2; });
  complains("state.started", [](LbfgsHyper&, OwnedState& s) { s.started = true; });
  complains("state.iterations", [](LbfgsHyper&, OwnedState& s) { s.iterations = 1; });
  complains("state.evaluations", [](LbfgsHyper&, OwnedState& s) { s.evaluations = 1; });
  complains("state.pending", [](LbfgsHyper&, OwnedState& s) {
    s.pending = true;
    s.move = s.grad_before = s.master;
  });
  complains("state.rho", [](LbfgsHyper&, OwnedState& s) {
    s.rho = {1};
    s.steps = s.grad_changes = {s.master};
  });
  const std::string message = complaint(-1, -1, [](int rank, LbfgsHyper&, OwnedState& state) {
    state.rho = {rank == 3 ? 2.0 : 1.0};
    state.steps = state.grad_changes = {state.master};
  });
  CHECK(contains(message, "the values of state.rho of rank 3 differ"));
}

TEST_CASE("lbfgs agreement: NaN losses agree, with any payload") {
  const FlatLayout layout({{"x", {5000}}});
  const ShardMap shards(layout.padded_numel(), 3, 1024);
  ThreadWorld world(3);
  run_ranks(world, [&](Communicator& comm) {
    const std::unique_ptr<LbfgsOptimizer> optimizer =
        reference::make_lbfgs({&layout, &shards, &comm, {}, {}});
    optimizer->load_state(starting_at(layout, std::vector<float>(5000, 2.0F)).view());
    const std::uint64_t payload = 0x7FF8000000000001U + static_cast<std::uint64_t>(comm.rank());
    GatheringClosure closure(layout, shards, comm,
                             [&](const std::vector<float>& x, std::vector<float>& g) {
                               g = x;
                               return std::bit_cast<double>(payload);
                             });
    CHECK(optimizer->step(closure).end == LbfgsEnd::nonfinite);
  });
}
