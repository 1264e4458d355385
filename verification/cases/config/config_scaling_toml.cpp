// The scales of 8-bit parameters in a file (R24).

#include "verification/cases/config/toml_value.hpp"

namespace zeroproof {

Keys<RunConfig> scaling_keys() {
  return {
      {"scaling.recipe",
       [](RunConfig& c, const Value& v) { c.scaling.recipe = choice<ScaleRecipe>(v); }},
      {"scaling.value",
       [](RunConfig& c, const Value& v) { c.scaling.value = choice<QuantizedValue>(v); }},
      {"scaling.initial_master",
       [](RunConfig& c, const Value& v) { c.scaling.initial_master = choice<InitialMaster>(v); }},
      {"scaling.columnwise",
       [](RunConfig& c, const Value& v) { c.scaling.columnwise = v.boolean(); }},
      {"scaling.epsilon",
       [](RunConfig& c, const Value& v) { c.scaling.epsilon = static_cast<float>(v.number()); }},
      {"scaling.power_of_two",
       [](RunConfig& c, const Value& v) { c.scaling.power_of_two = v.boolean(); }},
      {"scaling.blocks",
       [](RunConfig& c, const Value& v) { c.scaling.blocks = choice<ScaleBlocks>(v); }},
      {"scaling.margin", [](RunConfig& c, const Value& v) { c.scaling.margin = v.small(); }},
      {"scaling.history",
       [](RunConfig& c, const Value& v) { c.scaling.history = v.integer(INT64_MIN, INT64_MAX); }},
      {"scaling.choice",
       [](RunConfig& c, const Value& v) { c.scaling.choice = choice<AmaxChoice>(v); }},
      {"scaling.empty",
       [](RunConfig& c, const Value& v) { c.scaling.empty = choice<EmptyAmax>(v); }},
  };
}

}  // namespace zeroproof
