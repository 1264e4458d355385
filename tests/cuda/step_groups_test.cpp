// Param groups (R5): every tensor moves with its group's lr and weight decay; everything else is shared.

#include "tests/cuda/step_world.hpp"

#include <doctest.h>

#include <set>

#include "tests/cuda/expect_error.hpp"

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

StepResult run(StepRun run, const ParamGroups& groups, double lr, double weight_decay) {
  run.setup.groups = groups;
  run.setup.hyper.lr = lr;
  run.setup.hyper.weight_decay = weight_decay;
  const FlatLayout& layout = run.layout;
  return run.on(3, ragged_map(layout, 3));
}

}  // namespace

TEST_CASE("groups: each tensor is as in a run whose only group is its own") {
  const FlatLayout& layout = odd_layout();
  const OptimizerHyper hyper;
  const ParamGroups groups = two_groups();
  const double lrs[] = {hyper.lr, hyper.lr * lr_mult, 0.5};
  const double decays[] = {hyper.weight_decay, hyper.weight_decay * weight_decay_mult, 0};
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    for (const cuda::StepForm form : {cuda::StepForm::phases, cuda::StepForm::fused}) {
      StepRun base{layout, {}, form};
      base.setup.stage = 1;
      base.setup.micro_batches = 4;
      base.setup.missing_grad = missing;
      base.setup.hyper.norm = NormForm::exact;
      base.leaves = [](NumberedLeaves& leaves) { leaves.idle = true; };
      const StepResult got = run(base, groups, hyper.lr, hyper.weight_decay);
      CHECK(got.rest.problem == "");
      std::set<std::uint64_t> lr_words;
      for (int g = 0; g < 3; ++g) {
        const StepResult want = run(base, {}, lrs[g], decays[g]);
        for (const BufferId id : {BufferId::master, BufferId::exp_avg, BufferId::param_full}) {
          int wrong = 0;
          for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
            if (groups.of_tensor[t] != g) continue;
            const TensorSlot& slot = layout.tensors()[t];
            for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
              const auto at = static_cast<std::size_t>(i);
              wrong += got.rest.values.at(id)[at] != want.rest.values.at(id)[at];
            }
          }
          CHECK(wrong == 0);
        }
        // The scalars are exposed per group, in the order of groups, or per tensor.
        const std::vector<std::uint64_t>& all = got.rest.values.at(BufferId::step_scalars);
        const std::vector<std::uint64_t>& one = want.rest.values.at(BufferId::step_scalars);
        const std::size_t sets = missing == MissingGrad::zero ? 3 : layout.tensors().size();
        REQUIRE(all.size() == sets * num_step_scalar_words);
        for (std::size_t set = 0; set < sets; ++set) {
          const int of_set = missing == MissingGrad::zero ? static_cast<int>(set) : groups.of_tensor[set];
          if (of_set != g) continue;
          const std::size_t theirs = missing == MissingGrad::zero ? 0 : set;
          for (std::size_t w = 0; w < num_step_scalar_words; ++w) {
            CHECK(all[set * num_step_scalar_words + w] == one[theirs * num_step_scalar_words + w]);
          }
          lr_words.insert(all[set * num_step_scalar_words + 10]);
        }
      }
      CHECK(lr_words.size() == 3);
    }
  }
}
