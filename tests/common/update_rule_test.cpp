// The tables of update rules and of state slots: order and names.

#include "common/contracts/update_rule.hpp"

#include <doctest.h>

#include <string>

#include "common/step/policy.hpp"
#include "common/step/state_buffers.hpp"

namespace update_rule_test {

using namespace zeroproof;

TEST_CASE("update rules: the table is in the order of the enumerators and of their names") {
  for (std::size_t i = 0; i < update_rules.size(); ++i) {
    CHECK(static_cast<std::size_t>(update_rules[i].rule) == i);
    CHECK(name(update_rules[i].rule) == update_rules[i].name);
  }
  CHECK(names_of(UpdateRule{}).size() == update_rules.size());
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

TEST_CASE("update rules: a number that is not a rule is rejected") {
  try {
    traits_of(static_cast<UpdateRule>(update_rules.size()));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
  }
}

}  // namespace update_rule_test
