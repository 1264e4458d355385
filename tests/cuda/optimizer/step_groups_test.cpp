// Param groups (R5): every tensor uses its group's lr and weight decay; everything else is shared.

#include "tests/cuda/optimizer/production_world.hpp"

#include <set>

namespace step_groups_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr double lr_mult = 0.25;
constexpr double weight_decay_mult = 3;

/// Group 1: half the tensors. Group 2: one tensor, without decay.
ParamGroups two_groups() {
  ParamGroups groups;
  groups.rules.resize(2);
  groups.rules[0].name = "slow";
  groups.rules[0].lr_mult = lr_mult;
  groups.rules[0].weight_decay_mult = weight_decay_mult;
  groups.rules[1].name = "free";
  groups.rules[1].lr = 0.5;
  groups.rules[1].weight_decay_mult = 0;
  groups.of_tensor = {0, 1, 0, 1, 2, 0, 1};
  return groups;
}

/// The last step on one rank, of a world that has other groups.
StepTruth last_step(World world, const ParamGroups& groups, double lr, double weight_decay) {
  world.setup.groups = groups;
  world.setup.hyper.lr = lr;
  world.setup.hyper.weight_decay = weight_decay;
  return std::move(truth_of_one_rank(world).back());
}

}  // namespace

TEST_CASE("groups: each tensor equals a run with only its group") {
  const FlatLayout& layout = odd_layout();
  const OptimizerHyper hyper;
  const ParamGroups groups = two_groups();
  const double lrs[] = {hyper.lr, hyper.lr * lr_mult, 0.5};
  const double decays[] = {hyper.weight_decay, hyper.weight_decay * weight_decay_mult, 0};
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    for (const bool fused : {false, true}) {
      World world = production_world({1, 3}, 4);
      world.make = production(fused);
      world.shards = ragged_map;
      world.setup.stage = 1;
      world.setup.missing_grad = missing;
      world.setup.hyper.norm = NormForm::exact;
      const StepTruth got = last_step(world, groups, hyper.lr, hyper.weight_decay);
      std::set<std::uint64_t> lr_words;
      for (int g = 0; g < 3; ++g) {
        const StepTruth want = last_step(world, {}, lrs[g], decays[g]);
        for (const BufferId id : {BufferId::master, BufferId::exp_avg, BufferId::param_full}) {
          int wrong = 0;
          for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
            if (groups.of_tensor[t] != g) continue;
            const TensorSlot& slot = layout.tensors()[t];
            for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i)
              wrong += element_bits(got.at(id), i) != element_bits(want.at(id), i);
          }
          CHECK(wrong == 0);
        }
        // The scalars are exposed per group, in the order of groups, or per tensor.
        const TensorView all = got.at(BufferId::step_scalars);
        const TensorView one = want.at(BufferId::step_scalars);
        const std::int64_t sets = missing == MissingGrad::zero ? 3 : std::ssize(layout.tensors());
        REQUIRE(all.numel == sets * num_step_scalar_words);
        for (std::int64_t set = 0; set < sets; ++set) {
          const bool per_tensor = missing == MissingGrad::skip;
          if ((per_tensor ? groups.of_tensor[set] : set) != g) continue;
          const std::int64_t theirs = per_tensor ? set : 0;
          for (std::int64_t w = 0; w < num_step_scalar_words; ++w) {
            CHECK(element_bits(all, set * num_step_scalar_words + w) ==
                  element_bits(one, theirs * num_step_scalar_words + w));
          }
          lr_words.insert(element_bits(all, set * num_step_scalar_words + 10));
        }
      }
      CHECK(lr_words.size() == 3);
      world.setup.groups = groups;
      check_against_one_rank(world);
    }
  }
}

}  // namespace step_groups_test
