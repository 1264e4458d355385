// Param groups: a set of step scalars for each, and every tensor updated with the set of its group.

#include "tests/reference/alone.hpp"
#include "tests/reference/step/dense_support.hpp"

namespace groups_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

GroupRule group(const std::string& name, double lr_mult, double weight_decay_mult) {
  GroupRule rule;
  rule.name = name;
  rule.lr_mult = lr_mult;
  rule.weight_decay_mult = weight_decay_mult;
  return rule;
}

/// Groups of odd_layout: tensors b and one have no decay, tensor c has another rate.
ParamGroups three_groups() {
  ParamGroups groups;
  groups.rules = {group("no_decay", 1, 0), group("slow", 0.25, 1)};
  groups.of_tensor = {0, 0, 1, 1, 2};
  return groups;
}

}  // namespace

TEST_CASE("groups: one step by hand, without decay for the second tensor") {
  ThreeElements model;
  model.setup.groups.rules = {group("single", 0.5, 0)};
  model.setup.groups.of_tensor = {0, 1};
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, 3}}));  // g1 = 1, -3, 1
  const std::vector<StepScalars>& scalars = optimizer.last_step().scalars;
  REQUIRE(scalars.size() == 2);
  CHECK(scalars[0].lr == 0.25F);
  CHECK(scalars[0].has_decay == 1);
  CHECK(scalars[1].lr == 0.125F);
  CHECK(scalars[1].has_decay == 0);
  // exp_avg = 1/2, exp_avg_sq = 1/4, its root over sqrt(1 - beta2) = 1, d = 2, q = 1/4, step_size =
  // 1/4: 16 - 1/16.
  CHECK(three(optimizer.master()) == std::vector<float>{6.875F, -3.3125F, 15.9375F});
}

TEST_CASE("groups: a tensor with its own count has the rate of its group") {
  ThreeElements model;
  model.setup.groups.rules = {group("single", 0.5, 1)};
  model.setup.groups.of_tensor = {0, 1};
  model.setup.missing_grad = MissingGrad::skip;
  model.tensor_steps = {3, 0};
  model.applied_steps = 3;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{1, 1, 1}, {1, 1, 1}}, {{}, {{true, true}, {true, true}}}));
  const std::vector<StepScalars>& scalars = optimizer.last_step().scalars;
  REQUIRE(scalars.size() == 2);
  CHECK(scalars[0].step_size == static_cast<float>(0.25 / (1 - 0x1p-4)));
  CHECK(scalars[0].is_first == 0);
  CHECK(scalars[1].step_size == 0.25F);  // 0.125 / (1 - 1/2)
  CHECK(scalars[1].is_first == 1);
}

TEST_CASE("groups: a tensor with its own count is updated with its own scalars") {
  ThreeElements model;
  model.setup.groups.rules = {group("pair", 0.5, 1)};
  model.setup.groups.of_tensor = {1, 0};  // the default group has the second tensor
  model.setup.missing_grad = MissingGrad::skip;
  model.tensor_steps = {3, 0};
  model.applied_steps = 3;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{4, 4, 4}, {4, 4, 4}}, {{}, {{true, true}, {true, true}}}));  // g1 = 1
  // As in the first test q = 1/4; step_size = 1/4 / (1 - 1/2), and the decay is 1/4 * 1/2 * 16: 16
  // - 1/8 - 2.
  CHECK(optimizer.master()[1024] == 13.875F);
}

TEST_CASE("groups: a tensor that was not updated follows the schedule of the run") {
  ThreeElements model;
  model.setup.groups.rules = {group("single", 0.5, 1)};
  model.setup.groups.of_tensor = {0, 1};
  model.setup.groups.schedule.warmup = 8;
  model.setup.missing_grad = MissingGrad::skip;
  model.tensor_steps = {3, 0};
  model.applied_steps = 3;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{1, 1, 1}, {1, 1, 1}}, {{}, {{true, true}, {true, true}}}));
  const std::vector<StepScalars>& scalars = optimizer.last_step().scalars;
  CHECK(scalars[0].lr == 0.125F);  // 0.25 * 4 / 8
  CHECK(scalars[1].lr == 0.0625F);
  CHECK(scalars[1].step_size == 0.125F);  // over 1 - 1/2, of its own first step
}

TEST_CASE("groups: every stage equals the dense optimizer") {
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int world_size : {1, 3, 8}) {
        World world = reference_world(stage, {1, world_size}, 3);
        world.shards = World::contract_map(4096);
        world.setup.groups = three_groups();
        world.setup.missing_grad = missing;
        check_against_dense(world, "groups");
      }
    }
  }
}

TEST_CASE("groups: one set of scalars for every group, and the same storage after every step") {
  Alone rank(1);
  rank.setup.groups = three_groups();
  rank.make();
  CHECK(rank.view(BufferId::step_scalars).numel == 3 * num_step_scalar_words);
  const void* const before = rank.view(BufferId::step_scalars).data;
  rank.run(Phase::prepare);
  CHECK(rank.view(BufferId::step_scalars).data == before);
  const auto scalars = read<std::array<StepScalars, 3>>(rank.view(BufferId::step_scalars));
  CHECK(scalars[1].weight_decay == 0);
  CHECK(scalars[2].lr == static_cast<float>(0.25 * rank.setup.hyper.lr));
}

TEST_CASE("groups: a tensor without a group is rejected") {
  for (const std::vector<int>& of_tensor :
       {std::vector<int>{0, 0, 0, 0}, std::vector<int>{0, 0, 3, 0, 0},
        std::vector<int>{0, 0, -1, 0, 0}}) {
    Alone rank(1);
    rank.setup.groups = three_groups();
    rank.setup.groups.of_tensor = of_tensor;
    ZP_CHECK_INVALID(rank.make());

    StepSettings dense;
    dense.layout = &rank.layout;
    dense.groups = rank.setup.groups;
    ZP_CHECK_INVALID(reference::DenseOptimizer(dense, rank.initial.view()));
  }
}

TEST_CASE("groups: a rank with other groups is named on every rank before it computes") {
  World world = reference_world(0, {1, 4}, 1);
  world.setup.groups = three_groups();
  std::vector<std::string> messages(4);
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    if (place.rank == 1) rank.setup.groups.rules[1].lr_mult = 0.5;
    if (place.rank == 3) rank.setup.hyper.lr = 0.5;
    try {
      rank.load();
    } catch (const Error& error) {
      const bool expected = error.code() == ErrorCode::comm;
      messages[place.number] = expected ? error.what() : "another error";
    }
  });
  for (const std::string& message : messages) {
    CHECK(message.rfind("the values of groups.rules of rank 1 differ from those of rank 0", 0) ==
          0);
    CHECK(message == messages[0]);
  }
}

}  // namespace groups_test
