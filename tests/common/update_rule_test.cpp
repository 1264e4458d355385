// The table of update rules against R5 and R6, written out a second time.

#include "common/contracts/update_rule.hpp"

#include <doctest.h>

#include <vector>

#include "common/step/policy.hpp"
#include "common/step/state_buffers.hpp"

namespace update_rule_test {

using namespace zeroproof;

namespace {

using Slots = std::vector<StateSlot>;

OptimizerHyper hyper_of(UpdateRule rule, bool amsgrad, double momentum) {
  OptimizerHyper hyper;
  hyper.rule = rule;
  hyper.amsgrad = amsgrad;
  hyper.momentum = momentum;
  return hyper;
}

}  // namespace

TEST_CASE(
    "update rules: the table is in the order of the enumerators, which is that of their "
    "names") {
  for (std::size_t i = 0; i < update_rules.size(); ++i) {
    CHECK(static_cast<std::size_t>(update_rules[i].rule) == i);
    CHECK(traits_of(update_rules[i].rule).name == update_rules[i].name);
    CHECK(name(update_rules[i].rule) == update_rules[i].name);
  }
  CHECK(names_of(UpdateRule{}).size() == update_rules.size());
  CHECK(name(UpdateRule::adamw) == "adamw");
  CHECK(name(UpdateRule::adam) == "adam");
  CHECK(name(UpdateRule::sgd) == "sgd");
  CHECK(name(UpdateRule::sgd_ema) == "sgd_ema");
  CHECK(name(UpdateRule::lion) == "lion");
}

TEST_CASE("update rules: the state each of them keeps, in the order of R6") {
  const Slots one = {StateSlot::exp_avg}, two = {StateSlot::exp_avg, StateSlot::exp_avg_sq};
  const Slots three = {StateSlot::exp_avg, StateSlot::exp_avg_sq, StateSlot::max_exp_avg_sq};
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::adam}) {
    CHECK(kept_slots(hyper_of(rule, false, 0)) == two);
    CHECK(kept_slots(hyper_of(rule, true, 0)) == three);
  }
  CHECK(kept_slots(hyper_of(UpdateRule::sgd, false, 0)).empty());
  CHECK(kept_slots(hyper_of(UpdateRule::sgd, false, 0x1p-1000)) ==
        Slots{StateSlot::momentum_buffer});
  CHECK(kept_slots(hyper_of(UpdateRule::sgd_ema, false, 0)) == one);
  CHECK(kept_slots(hyper_of(UpdateRule::lion, false, 0)) == one);
  CHECK(kept_slots(hyper_of(UpdateRule::lamb, false, 0)) == two);
  CHECK(kept_slots(hyper_of(UpdateRule::muon, false, 0.95)) == two);
}

TEST_CASE("update rules: muon alone updates matrices, and has no amsgrad") {
  for (const RuleTraits& traits : update_rules)
    CHECK(traits.matrices == (traits.rule == UpdateRule::muon));
  CHECK(!traits_of(UpdateRule::muon).amsgrad());
  CHECK(!traits_of(UpdateRule::muon).momentum());  // there is no buffer of that name
}

TEST_CASE("state slots: values and scales are buffers named after the slot") {
  for (const StateSlot slot : all_state_slots) {
    CHECK(slot_of(buffer_of(slot)) == slot);
    CHECK(slot_of_scales(scales_of(slot)) == slot);
    CHECK(name(scales_of(slot)) == std::string(name(slot)) + "_scale");
  }
  CHECK(name(StateSlot::momentum_buffer) == "momentum_buffer");
  int states = 0, scales = 0;
  for (int id = 0; id < num_buffer_ids; ++id) {
    if (is_state(static_cast<BufferId>(id))) ++states;
    if (is_state_scale(static_cast<BufferId>(id))) ++scales;
  }
  CHECK(states == 5);  // with master
  CHECK(scales == 4);
}

TEST_CASE("update rules: rules with the decay in the gradient") {
  CHECK(traits_of(UpdateRule::adamw).decay == DecayKind::decoupled);
  CHECK(traits_of(UpdateRule::adam).decay == DecayKind::coupled);
  CHECK(traits_of(UpdateRule::sgd).decay == DecayKind::coupled);
  CHECK(traits_of(UpdateRule::sgd_ema).decay == DecayKind::coupled);
  CHECK(traits_of(UpdateRule::lion).decay == DecayKind::decoupled);
}

TEST_CASE("update rules: a number that is not a rule is rejected") {
  try {
    traits_of(static_cast<UpdateRule>(update_rules.size()));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
  }
}

}  // namespace update_rule_test
