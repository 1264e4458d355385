// A job that is ended after every step and continued on other ranks each time equals the
// uninterrupted job: every step has the same loss, norm, scale, and sums of every buffer.

#include <doctest.h>

#include <atomic>
#include <filesystem>

#include "tests/verification/tools/train/job_support.hpp"
#include "verification/cases/obstacle.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

namespace {

void twenty_steps(RunConfig& config) { config.steps = 20; }
void six_steps(RunConfig&) {}

/// All recipes, and settings with another kind of state.
std::vector<std::string> all_trainings() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) {
    const bool scaled = !recipe.dtypes.empty() && has_scales(recipe.dtypes.front());
    if (!scaled || makes_scales(Implementation::host)) names.emplace_back(recipe.name);
  }
  for (const char* more :
       {"adamw+clip_groups:four", "adamw-idle+norm:exact", "adamw+warmup:on+param_groups:own-rate"})
    names.emplace_back(more);
  return names;
}

DType dtype_of(const std::string& recipe) { return dtypes_of(recipe, {DType::fp16}, true).front(); }

/// Ended after every step; job i runs in places[i mod their number].
void check_chain(const TinyTraining& run, const std::vector<CaseSpec>& places) {
  const JobResult whole = run_job(run, run.spec(1, 0), {});
  const auto steps = static_cast<std::int64_t>(whole.steps.size());
  REQUIRE(steps == run.config.steps);
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  JobPlan plan{folder.file("c")};
  plan.stop_after = 1;
  JobResult last;
  for (std::int64_t step = 1; step <= steps; ++step) {
    CAPTURE(step);
    plan.resume = step > 1;
    plan.implementation = step % 3 == 0 ? Implementation::host_fused : Implementation::host;
    plan.mode = step % 2 == 0 ? SaveMode::asynchronous : SaveMode::synchronous;
    last = run_job(run, places[static_cast<std::size_t>(step) % places.size()], plan);
    CHECK(last.from == step - 1);
    REQUIRE(last.steps.size() == 1);
    expect_same(whole.steps, last);
  }
  CHECK(!last.stopped);
  CHECK(state_digest(last.state) == state_digest(whole.state));
}

void check_recipes(void (*steps)(RunConfig&)) {
  for (const std::string& recipe : all_trainings()) {
    CAPTURE(recipe);
    const TinyTraining run(dtype_of(recipe), recipe, steps);
    std::vector<CaseSpec> places;
    for (int i = 0; i < 10; ++i) places.push_back(run.spec(1 + i * 3 % 5, i % 4));
    check_chain(run, places);
  }
}

}  // namespace

TEST_CASE("job: ended after every step, every recipe, ranks and stages changing each time") {
  check_recipes(six_steps);
}

TEST_CASE("job: ended after every step, owners of matrices changing each time") {
  using Owned = void (*)(RunConfig&);
  const std::vector<Owned> owners = {
      [](RunConfig& config) { config.matrix_owners = MatrixOwners::every; },
      [](RunConfig& config) { config.matrix_owners = MatrixOwners::round_robin; },
      [](RunConfig& config) { config.matrix_owners = MatrixOwners::balanced; }};
  const TinyTraining first(DType::bf16, "muon", owners.front());
  const JobResult whole = run_job(first, first.spec(1, 0), {});
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  JobPlan plan{folder.file("c")};
  plan.stop_after = 1;
  JobResult last;
  for (int step = 1; step <= first.config.steps; ++step) {
    CAPTURE(step);
    const TinyTraining run(DType::bf16, "muon", owners[static_cast<std::size_t>(step % 3)]);
    plan.resume = step > 1;
    last = run_job(run, run.spec(1 + step * 2 % 5, 1 + step % 3), plan);
    CHECK(last.from == step - 1);
    expect_same(whole.steps, last);
  }
  CHECK(state_digest(last.state) == state_digest(whole.state));
}

TEST_CASE("nightly: job: ended after every one of 20 steps, every recipe") {
  check_recipes(twenty_steps);
}

TEST_CASE("slow: job: the same in every stage, from 1 to 8 ranks") {
  for (const std::string& recipe : all_trainings()) {
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(recipe);
      CAPTURE(stage);
      const TinyTraining run(dtype_of(recipe), recipe, twenty_steps);
      std::vector<CaseSpec> places;
      for (int i = 0; i < 8; ++i) places.push_back(run.spec(1 + i * 5 % 8, stage));
      check_chain(run, places);
    }
  }
}

TEST_CASE(
    "job: ended after every step, through layouts, grids, instances and ways to communicate") {
  const TinyTraining run(DType::bf16, "adamw-idle+model:even+norm:exact", twenty_steps);
  std::vector<CaseSpec> places;
  const auto add = [&](int ranks, int stage, const std::function<void(ParallelConfig&)>& change) {
    ParallelConfig place;
    change(place);
    places.push_back(run.spec(ranks, stage, place));
  };
  for (const LayoutKind layout :
       {LayoutKind::megatron, LayoutKind::deepspeed_flat, LayoutKind::deepspeed_param,
        LayoutKind::fsdp2, LayoutKind::greedy}) {
    const int stage = layout == LayoutKind::deepspeed_param || layout == LayoutKind::fsdp2 ? 3 : 1;
    add(3, stage, [&](ParallelConfig& place) { place.layout = layout; });
  }
  for (const ProcessGrid& grid :
       {ProcessGrid{2, 1, 2}, ProcessGrid{1, 2, 2}, ProcessGrid{1, 4, 1}, ProcessGrid{1, 1, 4}})
    add(4, 2, [&](ParallelConfig& place) { place.grid = grid; });
  add(4, 1, [](ParallelConfig& place) { place.instances = 2; });
  add(6, 2, [](ParallelConfig& place) { place.instances = 3; });
  add(3, 3, [](ParallelConfig& place) { place.persistent_numel = 64; });
  add(2, 2, [](ParallelConfig& place) { place.overlap = true; });
  add(3, 3, [](ParallelConfig& place) { place.overlap = true; });
  add(3, 1, [](ParallelConfig& place) { place.windows = Windows::on; });
  add(2, 0, [](ParallelConfig& place) { place.windows = Windows::params; });
  add(5, 2, [](ParallelConfig& place) { place.order = MicroBatchOrder::contiguous; });
  check_chain(run, places);
}

TEST_CASE("nightly: job: from W ranks to W' for all pairs in 1..8") {
  const TinyTraining run(DType::fp16, "adamw", six_steps);
  const JobResult whole = run_job(run, run.spec(1, 0), {});
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  for (int world = 1; world <= 8; ++world) {
    const std::string saved = folder.file("w" + std::to_string(world));
    JobPlan plan{saved};
    plan.stop_after = 3;
    expect_same(whole.steps, run_job(run, run.spec(world, 1 + world % 3), plan));
    for (int other = 1; other <= 8; ++other) {
      CAPTURE(world);
      CAPTURE(other);
      const std::string copy = folder.file("copy");
      std::filesystem::copy(saved, copy, std::filesystem::copy_options::recursive);
      const JobResult rest = run_job(run, run.spec(other, other % 4), {copy, true});
      CHECK(rest.steps.size() == 3);
      expect_same(whole.steps, rest);
      std::filesystem::remove_all(copy);
    }
  }
}

TEST_CASE("slow: job: from every one of 20 steps to the end, in one go") {
  for (const char* recipe : {"adamw", "sgd", "adamw-stochastic"}) {
    CAPTURE(std::string(recipe));
    const TinyTraining run(dtype_of(recipe), recipe, twenty_steps);
    const JobResult whole = run_job(run, run.spec(1, 0), {});
    const TemporaryFolder folder = TemporaryFolder::in_memory();
    for (int k = 1; k < 20; ++k) {
      CAPTURE(k);
      JobPlan plan{folder.file(std::to_string(k))};
      plan.stop_after = k;
      expect_same(whole.steps, run_job(run, run.spec(1 + k % 5, k % 4), plan));
      const JobResult rest =
          run_job(run, run.spec(1 + (k + 2) % 5, (k + 1) % 4), {plan.folder, true});
      CHECK(rest.steps.size() == static_cast<std::size_t>(20 - k));
      expect_same(whole.steps, rest);
    }
  }
}

TEST_CASE("job: differences are detected: another state, another step, another order") {
  const TinyTraining run(DType::fp16, "adamw", six_steps);
  const TinyTraining other(DType::fp16, "adamw",
                           [](RunConfig& config) { config.optimizer.lr *= 1.0000002; });
  const JobResult a = run_job(run, run.spec(2, 1), {});
  const JobResult b = run_job(other, other.spec(2, 1), {});
  REQUIRE(a.steps.size() == 6);
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}})
    CHECK(difference(a.steps[step], b.steps[step]) != "");
  CHECK(state_digest(a.steps.back()) != state_digest(b.steps.back()));
  CHECK(state_digest(a.steps.front()) != state_digest(a.steps.back()));
}
