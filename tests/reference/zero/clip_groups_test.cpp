// Clip groups (R12): a norm, a limit and a coefficient for each.

#include <array>

#include "tests/reference/alone.hpp"
#include "tests/reference/step/dense_support.hpp"

namespace clip_groups_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

ClipGroupRule group(const std::string& name, std::optional<double> max_norm) {
  return {name, {}, false, max_norm};
}

/// Groups of odd_layout: the default one has a and c, "shared" b, "free" the single number, and
/// "empty" the tensor without elements.
ClipGroups four_groups() {
  return {{group("shared", {}), group("free", 0), group("empty", 1e-3)}, {0, 3, 1, 2, 0}};
}

/// Three elements; the third is a group of its own.
ThreeElements third_apart(std::optional<double> max_norm) {
  ThreeElements model;
  model.setup.clip_groups = {{group("single", max_norm)}, {0, 1}};
  return model;
}

}  // namespace

TEST_CASE("clip groups: one step by hand") {
  // g1 = (24, 32, 12) / (4 * 2) = (3, 4, 1.5): norms 5 and 1.5. s = N + 1e-6.
  ThreeElements model = third_apart(0.75);
  model.setup.hyper.max_norm = 2.5;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{20, 30, 10}, {4, 2, 2}}));
  const reference::DenseStep& last = optimizer.last_step();
  CHECK(last.grad_norm == std::vector<double>{5, 1.5});
  const auto c0 = static_cast<float>(2.5 / (5 + 1e-6));
  const auto c1 = static_cast<float>(0.75 / (1.5 + 1e-6));
  CHECK(last.clip_coef == std::vector<float>{c0, c1});
  CHECK(c0 != c1);  // 1e-6 is a different fraction of each
  CHECK(three(last.grad) == std::vector<float>{3 * c0, 4 * c0, 1.5F * c1});

  const auto limbs = read<std::array<NormLimbs, 2>>(optimizer.buffer(BufferId::norm_limbs));
  CHECK(optimizer.buffer(BufferId::norm_limbs).numel == 46);
  CHECK(limbs[0].limbs[11] == 25);                                        // units of 2^0
  CHECK((limbs[1].limbs[11] == 2 && limbs[1].limbs[10] == 0x40000000U));  // 2.25
  CHECK(read<std::array<double, 2>>(optimizer.buffer(BufferId::grad_norm))[1] == 1.5);
  CHECK(read<std::array<float, 2>>(optimizer.buffer(BufferId::clip_coef))[1] == c1);
}

TEST_CASE("clip groups: each form of the norm covers its group only") {
  ThreeElements model = third_apart({});
  for (const auto& [form, first] :
       {std::pair{NormForm::exact, 5.0}, {NormForm::one, 7.0}, {NormForm::inf, 4.0}}) {
    model.setup.hyper.norm = form;
    reference::DenseOptimizer optimizer(model.setup, model.state());
    CHECK(step(optimizer, {{20, 30, 10}, {4, 2, 2}}));
    CHECK(optimizer.last_step().grad_norm == std::vector<double>{first, 1.5});
  }
  CHECK(model.setup.hyper.norm == NormForm::inf);
  reference::DenseOptimizer largest(model.setup, model.state());
  CHECK(step(largest, {{20, 30, 10}, {4, 2, 2}}));
  CHECK(read<std::array<std::uint32_t, 2>>(largest.buffer(BufferId::grad_amax))[1] ==
        0x3FC00000U);  // 1.5
}

TEST_CASE("clip groups: their own limit, no limit, and the run's limit") {
  for (const auto& [own, run, first, second] :
       {std::tuple{std::optional<double>{}, 2.5, true, false},
        {std::optional(0.0), 1.0, true, false},
        {std::optional(1.0), 100.0, false, true},
        {std::optional<double>{}, 1.0, true, true}}) {
    ThreeElements model = third_apart(own);
    model.setup.hyper.max_norm = run;
    reference::DenseOptimizer optimizer(model.setup, model.state());
    CHECK(step(optimizer, {{20, 30, 10}, {4, 2, 2}}));
    const std::vector<float>& coef = optimizer.last_step().clip_coef;
    CHECK((coef[0] < 1) == first);
    CHECK((coef[1] < 1) == second);
    CHECK((coef[1] == 1) == !second);
  }
}

TEST_CASE(
    "clip groups: an infinity anywhere skips the step of all; when propagated, it stays in its "
    "group") {
  ThreeElements model = third_apart(0.75);
  model.setup.hyper.max_norm = 2.5;
  reference::DenseOptimizer skips(model.setup, model.state());
  const std::vector<float> before = skips.master();
  CHECK_FALSE(step(skips, {{20, 30, inf32}, {4, 2, 2}}));
  for (const double norm : skips.last_step().grad_norm) CHECK(std::isnan(norm));
  for (const float coef : skips.last_step().clip_coef) CHECK(std::isnan(coef));
  CHECK(three(skips.master()) == three(before));

  model.setup.on_nonfinite = OnNonfinite::propagate;
  reference::DenseOptimizer goes_on(model.setup, model.state());
  CHECK(step(goes_on, {{20, 30, inf32}, {4, 2, 2}}));
  CHECK(goes_on.last_step().grad_norm == std::vector<double>{5, inf64});
  CHECK(goes_on.last_step().clip_coef ==
        std::vector<float>{static_cast<float>(2.5 / (5 + 1e-6)), 0});
  CHECK(std::isnan(goes_on.last_step().grad[1024]));  // infinity * 0
  CHECK(goes_on.last_step().grad[0] == 3 * goes_on.last_step().clip_coef[0]);
}

TEST_CASE("clip groups: clipping by value ignores groups") {
  ThreeElements model = third_apart(0.75);
  model.setup.hyper.clip_value = 0.5;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{20, 30, 10}, {4, 2, 2}}));
  CHECK(three(optimizer.last_step().grad) == std::vector<float>{0.5F, 0.5F, 0.5F});
}

TEST_CASE("clip groups: every stage equals the dense optimizer") {
  for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int world_size : {1, 3, 8}) {
        World world = reference_world(stage, {1, world_size}, 3);
        world.shards = World::contract_map(4096);
        world.setup.clip_groups = four_groups();
        world.setup.hyper.norm = form;
        world.setup.hyper.max_norm = 0.5;
        check_against_dense(world, "clip groups");
      }
    }
  }
}

TEST_CASE("clip groups: words of every group, and the same storage after every step") {
  Alone rank(1);
  rank.setup.clip_groups = four_groups();
  rank.make();
  CHECK(rank.view(BufferId::norm_limbs).numel == 4 * 23);
  CHECK(rank.view(BufferId::grad_norm).numel == 4);
  CHECK(rank.view(BufferId::clip_coef).numel == 4);
  const void* const norms = rank.view(BufferId::grad_norm).data;
  const void* const coefs = rank.view(BufferId::clip_coef).data;
  const void* const limbs = rank.view(BufferId::norm_limbs).data;
  rank.run_up_to(Phase::clip);
  CHECK(rank.view(BufferId::grad_norm).data == norms);
  CHECK(rank.view(BufferId::clip_coef).data == coefs);
  CHECK(rank.view(BufferId::norm_limbs).data == limbs);
  const auto norm = read<std::array<double, 4>>(rank.view(BufferId::grad_norm));
  CHECK(norm[0] > 0);
  CHECK(bits(norm[3]) == bits(0.0));  // a tensor without elements
  const auto coef = read<std::array<float, 4>>(rank.view(BufferId::clip_coef));
  CHECK(coef[2] == 1);
  CHECK(coef[3] == 1);
}

TEST_CASE("clip groups: later phases read values written into a view") {
  Alone rank(1);
  rank.setup.clip_groups = four_groups();
  rank.make();
  rank.run_up_to(Phase::norm);
  static_cast<double*>(rank.view(BufferId::grad_norm).data)[1] = 8.0 - 1e-6;
  rank.run(Phase::clip);
  CHECK(static_cast<float*>(rank.view(BufferId::clip_coef).data)[1] == 0.25F);  // 2 / 8
}

TEST_CASE("clip groups: a tensor without a group and an invalid limit are rejected") {
  for (const std::vector<int>& of_tensor :
       {std::vector<int>{0, 0, 0, 0}, std::vector<int>{0, 0, 4, 0, 0},
        std::vector<int>{0, 0, -1, 0, 0}}) {
    Alone rank(1);
    rank.setup.clip_groups = four_groups();
    rank.setup.clip_groups.of_tensor = of_tensor;
    ZP_CHECK_INVALID(rank.make());
  }
  for (const double limit : {-1.0, inf64, nan64}) {
    Alone rank(1);
    rank.setup.clip_groups = four_groups();
    rank.setup.clip_groups.rules[1].max_norm = limit;
    ZP_CHECK_INVALID(rank.make());
  }
}

}  // namespace clip_groups_test
