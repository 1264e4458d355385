// Parameter-update verification: a rank with one wrong bit is named, without any reference.

#include <doctest.h>

#include "tests/verification/training/training_support.hpp"
#include "verification/compare/judge/replicas.hpp"

namespace replicas_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Flips the lowest bit of one element of a buffer.
void flip(DistributedOptimizer& optimizer, Phase phase, BufferId id, std::int64_t index) {
  for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
    if (buffer.id != id) continue;
    static_cast<std::uint8_t*>(buffer.view.data)[index * num_bytes(buffer.view.dtype)] ^= 1U;
  }
}

/// Trains one step, damages one rank, and returns the report of every rank (they must agree).
std::optional<Drift> drift_after(TinyTraining& run, const CaseSpec& spec,
                                 const std::function<void(const RankOfStep&)>& damage) {
  std::vector<std::optional<Drift>> found(spec.world.size);
  train(run.experiment, run.leaves, spec, run.first, 1, 1, host_optimizer(),
        [&](const RankOfStep& rank) {
          damage(rank);
          found[rank.world.rank()] = find_drift(rank.layout, rank.optimizer, rank.world);
        });
  for (const std::optional<Drift>& drift : found) {
    CHECK(drift.has_value() == found.front().has_value());
    if (drift && found.front()) CHECK(describe(*drift) == describe(*found.front()));
  }
  return found.front();
}

}  // namespace

TEST_CASE("replicas: no drift in any stage, order or layout") {
  TinyTraining run(DType::bf16, "adamw", [](RunConfig& c) { c.optimizer.norm = NormForm::exact; });
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(!drift_after(run, run.spec(4, stage), [](const RankOfStep&) {}));
    ParallelConfig place;
    place.layout = LayoutKind::greedy;
    place.instances = 2;
    place.order = MicroBatchOrder::strided;
    CHECK(!drift_after(run, run.spec(4, stage, place), [](const RankOfStep&) {}));
  }
}

TEST_CASE("replicas: one bit of one parameter on one rank is reported") {
  TinyTraining run(DType::bf16);
  const FlatLayout& layout = run.experiment.layout();
  const std::int64_t index = layout.tensors()[3].begin + 5;
  for (const int rank : {0, 2, 3}) {
    const auto drift = drift_after(run, run.spec(4, 1), [&](const RankOfStep& r) {
      if (r.world.rank() == rank) flip(r.optimizer, Phase::gather, BufferId::param_full, index);
    });
    REQUIRE(drift);
    CHECK(drift->rank == rank);
    CHECK(drift->agrees_with == (rank == 0 ? 1 : 0));
    CHECK(drift->buffer == "param_full");
    CHECK(drift->parameter == layout.tensors()[3].name);
    CHECK(drift->element == 5);
    CHECK(drift->global_index == index);
    CHECK(drift->differing == 1);
    CHECK(drift->value != drift->expected);
  }
}

TEST_CASE("replicas: replicated state, scalars, and the shards of instances") {
  TinyTraining run(DType::bf16);
  const auto state = drift_after(run, run.spec(3, 0), [](const RankOfStep& r) {
    if (r.world.rank() == 1) flip(r.optimizer, Phase::update, BufferId::exp_avg_sq, 7);
  });
  REQUIRE(state);
  CHECK(state->rank == 1);
  CHECK(state->buffer == "exp_avg_sq");
  CHECK(state->element == 7);

  const auto scalar = drift_after(run, run.spec(3, 2), [](const RankOfStep& r) {
    if (r.world.rank() == 2) flip(r.optimizer, Phase::norm, BufferId::grad_norm, 0);
  });
  REQUIRE(scalar);
  CHECK(scalar->rank == 2);
  CHECK(scalar->buffer == "grad_norm");
  CHECK(scalar->parameter.empty());

  ParallelConfig place;
  place.instances = 2;
  const auto instance = drift_after(run, run.spec(6, 3, place), [](const RankOfStep& r) {
    if (r.world.rank() == 4) flip(r.optimizer, Phase::update, BufferId::master, 0);
  });
  REQUIRE(instance);
  CHECK(instance->rank == 4);  // one against one: the lowest rank counts as correct
  CHECK(instance->agrees_with == 1);
  CHECK(instance->buffer == "master");
}

TEST_CASE("replicas: values replicated over tensor parallel ranks, and only those, must be equal") {
  TinyTraining run(DType::bf16, "sgd", [](RunConfig& c) {
    c.model.width = 20;
    c.model.heads = 4;
  });
  ParallelConfig place;
  place.grid = ProcessGrid{1, 1, 4};
  CHECK(!drift_after(run, run.spec(4, 1, place), [](const RankOfStep&) {}));
  const std::string name = "block0.mlp_norm.gain";
  const auto drift = drift_after(run, run.spec(4, 1, place), [&](const RankOfStep& r) {
    if (r.world.rank() != 2) return;
    for (const TensorSlot& slot : r.layout.local(2).layout.tensors()) {
      if (slot.name == name) flip(r.optimizer, Phase::gather, BufferId::param_full, slot.begin + 3);
    }
  });
  REQUIRE(drift);
  CHECK(drift->rank == 2);
  CHECK(drift->parameter == name);
  CHECK(drift->element == 3);
  for (const TensorSlot& slot : run.experiment.layout().tensors()) {
    if (slot.name == name)
      CHECK(drift->global_index == slot.begin + 3);  // although local tensors are shorter
  }
}

}  // namespace replicas_test
