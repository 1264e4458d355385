// The scales of 8-bit parameters (R24).

#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

bool in_8_bits(const RunConfig& c) { return c.dtypes.size() == 1 && has_scales(c.dtypes.front()); }

bool from_this_step(const RunConfig& c) {
  return in_8_bits(c) &&
         (c.scaling.recipe == ScaleRecipe::current || c.scaling.recipe == ScaleRecipe::blockwise);
}

bool in_blocks(const RunConfig& c) {
  return in_8_bits(c) && c.scaling.recipe == ScaleRecipe::blockwise;
}

bool from_history(const RunConfig& c) { return in_8_bits(c) && keeps_history(c.scaling); }

}  // namespace

std::vector<Setting> scaling_settings() {
  return {
      where(in_8_bits, every_choice(
                           "scale_recipe", "scaling.recipe",
                           [](auto& c) -> auto& { return c.scaling.recipe; })),
      where(in_8_bits,
            every_choice(
                "scaled_value", "scaling.value", [](auto& c) -> auto& { return c.scaling.value; })),
      where(in_8_bits, every_choice(
                           "initial_master", "scaling.initial_master",
                           [](auto& c) -> auto& { return c.scaling.initial_master; })),
      where(in_8_bits, off_and_on(
                           "columnwise", "scaling.columnwise",
                           [](auto& c) -> auto& { return c.scaling.columnwise; })),
      // Above the amax of some tensors and below that of others.
      where(from_this_step, zero_or(
                                "scale_epsilon", "scaling.epsilon",
                                [](auto& c) -> auto& { return c.scaling.epsilon; }, 0.0625F)),
      where(from_this_step, off_and_on(
                                "power_of_two", "scaling.power_of_two",
                                [](auto& c) -> auto& { return c.scaling.power_of_two; })),
      where(in_blocks, every_choice(
                           "scale_blocks", "scaling.blocks",
                           [](auto& c) -> auto& { return c.scaling.blocks; })),
      where(from_history, zero_or(
                              "scale_margin", "scaling.margin",
                              [](auto& c) -> auto& { return c.scaling.margin; }, 1)),
      where(
          from_history,
          these_values<decltype([](auto& c) -> auto& { return c.scaling.history; }), std::int64_t>(
              "amax_history", "scaling.history", {}, {{"1", 1}, {"3", 3}, {"1024", 1024}})),
      where(from_history, every_choice(
                              "amax_choice", "scaling.choice",
                              [](auto& c) -> auto& { return c.scaling.choice; })),
      where(from_history,
            every_choice(
                "empty_amax", "scaling.empty", [](auto& c) -> auto& { return c.scaling.empty; })),
  };
}

}  // namespace zeroproof::verification
