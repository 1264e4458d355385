// Equal buckets and equal ranks are counted once: the figures are those of a list of all of them,
// with few entries.

#include <doctest.h>

#include <algorithm>

#include "tests/verification/tools/plan/accounting_settings.hpp"
#include "tests/verification/tools/plan/plan_listing.hpp"
#include "verification/tools/plan/planned_run.hpp"
#include "verification/tools/plan/rank_kinds.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// A few layers of odd sizes, some of them empty, split by TP or not.
PlannedModel random_model(Shuffle& rest) {
  PlannedModel model{"random", {}, true};
  const int layers = 1 + rest.below(6);
  for (int layer = 0; layer < layers; ++layer) {
    for (int tensor = rest.below(4); tensor >= 0; --tensor) {
      const std::int64_t rows = rest.one_of({0, 1, 3, 64, 333, 1024, 1025, 4096, 30'000});
      const std::int64_t columns = rest.one_of({1, 1, 2, 5});
      const bool cut = rest.below(2) == 0;
      const std::string name = (layer % 3 == 0 ? "outside" : "block") + std::to_string(layer) +
                               "." + std::string(1, static_cast<char>('a' + tensor));
      model.tensors.push_back({{name, {rows, cut ? 8 * columns : columns}}, cut ? 1 : -1});
    }
  }
  return model;
}

PlanSettings random_settings(Shuffle& rest) {
  PlanSettings settings;
  settings.grid.cp = rest.one_of({1, 1, 1, 2, 4});
  settings.grid.tp = rest.one_of({1, 1, 2});
  const int per_instance = rest.one_of({1, 2, 3, 5, 8, 13, 22, 70});
  settings.instances = per_instance > 13 ? 1 : rest.one_of({1, 1, 2, 3, 9});
  settings.grid.dp = per_instance * settings.instances;
  settings.stages = {rest.below(4)};
  settings.order = rest.one_of(
      {MicroBatchOrder::by_stage, MicroBatchOrder::contiguous, MicroBatchOrder::strided});
  settings.windows = rest.one_of({Windows::off, Windows::on, Windows::params});
  settings.micro_batches = rest.one_of({0, 1, 2, 7, 16, 33, 97});
  settings.bucket_numel = 1024 * rest.one_of({1, 1, 2, 3, 5, 8, 31, 64, 70, 1000});
  settings.param_dtype = rest.one_of({DType::bf16, DType::fp32});
  settings.grad_dtype = rest.one_of({DType::bf16, DType::fp32});
  return settings;
}

bool same(const TrafficLine& a, const TrafficLine& b) {
  return a.phase == b.phase && a.group == b.group && a.collective == b.collective &&
         a.what == b.what && a.calls == b.calls && a.messages == b.messages &&
         a.messages_received == b.messages_received && a.sent_bytes == b.sent_bytes &&
         a.received_bytes == b.received_bytes;
}

void check_rank(const RankPlan& plan, const RankPlan& listed) {
  CHECK(plan.data_rank == listed.data_rank);
  CHECK(plan.shard_numel == listed.shard_numel);
  CHECK(plan.memory.now == listed.memory.now);
  CHECK(plan.memory.peak == listed.memory.peak);
  CHECK(plan.memory.total_now == listed.memory.total_now);
  CHECK(plan.memory.total_peak == listed.memory.total_peak);
  CHECK(plan.at_peak == listed.at_peak);
}

/// The result of plan_stage, from all ranks one by one; traffic only where it is shown.
void check_stage(const Plan& plan, const PlannedModel& model) {
  const StagePlan& stage = plan.stages.front();
  PlanListing listing(plan.settings, model, stage.stage);
  RankPlan smallest, largest;
  BytesByClass least{}, most{};
  for (std::int64_t rank = 0; rank < plan.settings.grid.data_ranks(); ++rank) {
    RankPlan one{rank, listing.of_rank(rank).shard_numel, {}, {}, {}};
    one.memory = listing.memory(one.at_peak);
    for (std::size_t c = 0; c < most.size(); ++c) {
      most[c] = std::max(most[c], one.memory.peak[c]);
      least[c] = rank == 0 ? one.memory.peak[c] : std::min(least[c], one.memory.peak[c]);
    }
    if (rank == 0 || one.memory.total_peak < smallest.memory.total_peak) smallest = one;
    if (rank == 0 || one.memory.total_peak > largest.memory.total_peak) largest = one;
  }
  check_rank(stage.smallest, smallest);
  check_rank(stage.largest, largest);
  CHECK(stage.least == least);
  CHECK(stage.most == most);
  const std::int64_t ranks = plan.settings.grid.data_ranks();
  CHECK(stage.ranks_computed == (ranks <= 64 ? ranks : listing.kinds()));
  for (const RankPlan* shown : {&stage.smallest, &stage.largest}) {
    const StepTraffic listed = predict_traffic(listing.of_rank(shown->data_rank));
    const bool equal = std::equal(
        shown->traffic.lines.begin(), shown->traffic.lines.end(), listed.lines.begin(),
        listed.lines.end(), [](const TrafficLine& a, const TrafficLine& b) { return same(a, b); });
    CHECK(equal);
  }
}

/// 175e9 parameters in 578 tensors.
PlannedModel gpt_175b() {
  PlannedModel model{
      "175B", {{{"tokens", {50'257, 12'288}}, -1}, {{"places", {2048, 12'288}}, -1}}, true};
  for (int layer = 0; layer < 96; ++layer) {
    const std::string name = "layer" + std::to_string(layer) + ".";
    model.tensors.push_back({{name + "norm", {12'288}}, -1});
    model.tensors.push_back({{name + "qkv", {12'288, 36'864}}, 1});
    model.tensors.push_back({{name + "out", {12'288, 12'288}}, 0});
    model.tensors.push_back({{name + "up", {12'288, 49'152}}, 1});
    model.tensors.push_back({{name + "down", {49'152, 12'288}}, 0});
    model.tensors.push_back({{name + "bias", {12'288}}, -1});
  }
  return model;
}

/// 60 layers of 555 experts of three tensors, whose sizes are not multiples of a chunk.
PlannedModel experts_175b() {
  PlannedModel model{"experts", {}, true};
  for (int i = 0; i < 60 * 555 * 3; ++i) {
    const std::string name = "layer" + std::to_string(i / 1665) + ".expert" + std::to_string(i);
    model.tensors.push_back({{name, {1711, 1024 - i % 3}}, i % 3 == 0 ? 0 : -1});
    if (i % 3 == 0) model.tensors.back().spec.shape[0] = 1712;
  }
  return model;
}

/// Random models and settings.
void check_plans(int count) {
  Shuffle rest;
  for (int i = 0; i < count; ++i) {
    const PlannedModel model = random_model(rest);
    const PlanSettings settings = random_settings(rest);
    CAPTURE(i);
    CAPTURE(settings.grid.id());
    CAPTURE(settings.instances);
    CAPTURE(settings.stages.front());
    CAPTURE(name(settings.windows));
    CAPTURE(settings.micro_batches);
    CAPTURE(settings.bucket_numel);
    check_stage(make_plan(model, settings), model);
  }
}

}  // namespace

TEST_CASE("a plan equals the sum over a list of all ranks, buckets and leaves") { check_plans(80); }

TEST_CASE("nightly: 400 plans equal the sum over a list of all ranks, buckets and leaves") {
  check_plans(400);
}

TEST_CASE("nightly: any number of buckets, ranks and micro-batches: a few entries for every unit") {
  for (const PlannedModel& model : {gpt_175b(), experts_175b()}) {
    for (const char* grid :
         {"1x1x1", "16x1x1", "64x1x1", "96x1x1", "1024x1x1", "16384x1x1", "2048x1x8"}) {
      for (const std::int64_t bucket_numel : {1024, 32'768, 262'144, 2'097'152}) {
        for (int stage = 0; stage <= 3; ++stage) {
          CAPTURE(grid);
          CAPTURE(bucket_numel);
          CAPTURE(stage);
          PlanSettings settings;
          settings.grid = planned_grid(grid, 0);
          settings.bucket_numel = bucket_numel;
          settings.micro_batches = 3 * settings.grid.dp + 1;
          const FlatLayout layout(tp_shapes(model, settings.grid.tp));
          const std::vector<FlatRange> units = named_units(layout);
          const PredictedStep run = planned_run(settings, model, layout, units, stage);
          const bool alone = run.buckets.front().owners == 1 && settings.grid.tp > 1;
          const std::size_t most = stage < 2 ? 5 : 2 + 5 * units.size();
          CHECK(run.buckets.size() <= (alone ? most + 2 * model.tensors.size() : most));
          std::int64_t buckets = 0;
          for (const BucketShape& bucket : run.buckets) buckets += bucket.count;
          CHECK(buckets == (layout.padded_numel() + bucket_numel - 1) / bucket_numel);
          LeafStacks stacks(run);
          CHECK(kinds_of_ranks(run, bucket_numel, stacks).first.size() <= 48);
        }
      }
    }
  }
}

TEST_CASE("175e9 parameters in buckets of one chunk for 16,384 ranks") {
  PlanSettings settings;
  settings.grid = planned_grid("16384x1x1", 0);
  settings.bucket_numel = 1024;
  const Plan plan = make_plan(gpt_175b(), settings);
  // The last rank owns every bucket of one chunk.
  for (const StagePlan& stage : plan.stages) {
    CHECK(stage.most[static_cast<std::size_t>(MemoryClass::master)] == 4 * plan.padded_numel);
    if (stage.stage > 0) CHECK(stage.largest.data_rank == 16'383);
    if (stage.stage > 0)
      CHECK(stage.smallest.memory.now[static_cast<std::size_t>(MemoryClass::master)] == 0);
  }
  CHECK(plan.stages[1].largest.traffic.lines.back().calls == plan.padded_numel / 1024);
}
