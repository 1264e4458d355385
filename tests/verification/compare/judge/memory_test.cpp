// Forbidden writes of a candidate: past the end of a buffer, and in a phase that does not own the
// buffer.

#include <doctest.h>

#include "tests/verification/compare/judge/judge_support.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// One byte just before (-1) or just after (0) the elements of a buffer: inside its red zone.
void touch_outside(const ExposedBuffer& buffer, bool before) {
  auto* bytes = static_cast<std::uint8_t*>(buffer.view.data);
  std::uint8_t& byte = before ? bytes[-1] : bytes[buffer.view.num_bytes()];
  byte = static_cast<std::uint8_t>(byte ^ 1U);
}

constexpr struct {
  Phase phase;
  BufferId id;
  const char* name;  // production keeps G, g1 and g in one buffer
} guarded[] = {
    {Phase::reduce, BufferId::grad_sum, "grad"},
    {Phase::update, BufferId::master, "master"},
    {Phase::update, BufferId::exp_avg, "exp_avg"},
    {Phase::update, BufferId::exp_avg_sq, "exp_avg_sq"},
    {Phase::update, BufferId::max_exp_avg_sq, "max_exp_avg_sq"},
    {Phase::cast, BufferId::param_shard, "param_shard"},
    {Phase::gather, BufferId::param_full, "param_full"},
};

}  // namespace

TEST_CASE("judge: a write past either end of any buffer is reported in its phase") {
  TinyTraining run(DType::bf16, "adamw-amsgrad");
  for (const auto& place : guarded) {
    for (const bool before : {true, false}) {
      CAPTURE(place.name);
      CAPTURE(before);
      // With one rank the shard is the parameter buffer.
      const int ranks = place.id == BufferId::param_full ? 2 : 1;
      const Judged judged = judge_candidate(
          run, run.spec(ranks, 1), 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
            if (now == place.phase)
              touch_outside(exposed(o, place.phase, place.id).value(), before);
          });
      REQUIRE(judged.first);
      CHECK(says(judged, "red zone"));
      CHECK(judged.first->phase == place.phase);
      CHECK(judged.first->buffer == place.name);
    }
  }
}

TEST_CASE("judge: a write past a buffer on the last rank") {
  TinyTraining run(DType::bf16);
  const Judged judged = judge_candidate(
      run, run.spec(3, 2), 2, [&](int rank, std::optional<Phase> now, DistributedOptimizer& o) {
        if (rank == 2 && now == Phase::cast)
          touch_outside(exposed(o, Phase::cast, BufferId::param_shard).value(), false);
      });
  REQUIRE(judged.first);
  CHECK(says(judged, "red zone"));
  CHECK(judged.first->rank == 2);
}

TEST_CASE("judge: a write past a buffer while loading state is reported before the first step") {
  TinyTraining run(DType::bf16);
  const Judged judged = judge_candidate(
      run, run.spec(2, 1), 1, [&](int rank, std::optional<Phase> now, DistributedOptimizer& o) {
        if (rank == 1 && !now)
          touch_outside(exposed(o, Phase::update, BufferId::exp_avg).value(), true);
      });
  REQUIRE(judged.first);
  CHECK(says(judged, "red zone"));
  CHECK(judged.first->step == 0);
  CHECK(judged.first->rank == 1);
  CHECK(judged.first->buffer == "exp_avg");
}

TEST_CASE("judge: an illegal write of a phase is reported with element and parameter") {
  TinyTraining run(DType::bf16);
  const TensorSlot& tensor = run.experiment.layout().tensors()[3];
  for (const Phase phase :
       {Phase::prepare, Phase::reduce, Phase::norm, Phase::cast, Phase::gather}) {
    CAPTURE(name(phase));
    const Judged judged = judge_candidate(
        run, run.spec(1, 1), 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
          if (now != phase) return;
          auto* master =
              static_cast<float*>(exposed(o, Phase::update, BufferId::master)->view.data);
          master[tensor.begin + 5] += 1.0F;
          master[tensor.begin + 7] = -master[tensor.begin + 7];
        });
    REQUIRE(judged.first);
    CHECK(says(judged, "may not write"));
    CHECK(judged.first->phase == phase);
    CHECK(judged.first->buffer == "master");
    CHECK(judged.first->parameter == tensor.name);
    CHECK(judged.first->global_index == tensor.begin + 5);
    CHECK(judged.first->last_global_index == tensor.begin + 7);
    CHECK(judged.first->coordinates == run.experiment.layout().coordinates(tensor.begin + 5));
    CHECK(judged.first->differing == 2);
    CHECK(judged.first->reference_value != judged.first->candidate_value);
  }
}

TEST_CASE("judge: a phase may neither replace a poison NaN with another nor change a counter") {
  TinyTraining run(DType::bf16);
  const auto padding = judge_candidate(
      run, run.spec(1, 1), 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
        if (now != Phase::norm) return;
        const std::optional<ExposedBuffer> master = exposed(o, Phase::update, BufferId::master);
        auto* words = static_cast<std::uint32_t*>(master->view.data);
        words[run.experiment.layout().tensors()[0].numel] =
            0x7FC00000U;  // padding after the first tensor
      });
  CHECK(says(padding, "may not write"));
  CHECK(padding.first->parameter.empty());
  const auto counter = judge_candidate(
      run, run.spec(1, 1), 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
        if (now == Phase::cast)
          *static_cast<std::uint64_t*>(
              exposed(o, Phase::update, BufferId::applied_steps)->view.data) += 1;
      });
  CHECK(says(counter, "may not write"));
  CHECK(counter.first->buffer == "applied_steps");
}
