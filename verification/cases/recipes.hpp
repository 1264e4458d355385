#pragma once
// Named variations of the step, the second part of a case id; every rule, norm form and policy is
// in at least one. Settings may follow the name, each with a value of settings():
// "adamw+amsgrad:on+state:1001".

#include <string>
#include <string_view>
#include <vector>

#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

struct Recipe {
  std::string_view name;
  std::string_view summary;
  void (*apply)(RunConfig&);
  /// The formats of parameters it can run with, the default first; empty: any, as configured.
  Span<const DType> dtypes = {};
};

/// Every recipe. The plain rule names come first.
Span<const Recipe> recipes();

/// The recipe that leaves a configuration as it is: the name of its rule.
std::string configured_recipe(const RunConfig& config);

/// Settings under a recipe; unchanged for the configured one. Errors (ErrorCode::config): an
/// unknown name, setting or value.
RunConfig under_recipe(RunConfig config, const std::string& recipe);

/// The first setting, as "optimizer.amsgrad", that was changed from `plain` to `config` without an
/// effect, because the recipe sets it; "" if there is none.
std::string ignored_setting(RunConfig plain, RunConfig config, const std::string& recipe);

/// The name of a recipe in tables: "adamw", or with 12 settings "adamw+12".
std::string shown_recipe(const std::string& recipe);

/// Whether the recipe can run with parameters of that dtype.
bool recipe_allows(const std::string& recipe, DType dtype);

/// The dtypes among `configured` that the recipe can run with. If there is none and the configured
/// ones are the workload's defaults, the recipe's first one (8-bit recipes).
std::vector<DType> dtypes_of(const std::string& recipe, const std::vector<DType>& configured,
                             bool own);

/// Whether a case id may contain the name, with any settings.
bool is_recipe(std::string_view name);

}  // namespace zeroproof::verification
