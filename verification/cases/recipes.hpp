#pragma once
// Named variations of the step, the second part of a case id: every rule, norm form and policy in at least one. Behind
// the name settings may follow, each with a value of settings(): "adamw+amsgrad:on+state:1001".

#include <string>
#include <string_view>
#include <vector>

#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

struct Recipe {
  std::string_view name;
  std::string_view summary;
  void (*apply)(RunConfig&);
  /// The formats of parameters it can run with, the first of them where none is asked for; empty: any, as configured.
  Span<const DType> dtypes = {};
};

/// Every recipe. The plain rule names come first.
Span<const Recipe> recipes();

/// The recipe that leaves a configuration as it is: the name of its rule.
std::string configured_recipe(const RunConfig& config);

/// Settings under a recipe; as they are for the configured one. Errors (ErrorCode::config): an unknown name,
/// setting or value.
RunConfig under_recipe(RunConfig config, const std::string& recipe);

/// A recipe as a table shows it: "adamw", or with so many settings "adamw+12".
std::string shown_recipe(const std::string& recipe);

/// Whether the recipe can run with parameters of that dtype.
bool recipe_allows(const std::string& recipe, DType dtype);

/// The dtypes among `configured` that the recipe can run with; if there is none and the workload's own were left as
/// they are, the recipe's first one: recipes of 8-bit parameters are about nothing else.
std::vector<DType> dtypes_of(const std::string& recipe, const std::vector<DType>& configured,
                             bool own);

/// Whether a case id may name it, whatever settings follow.
bool is_recipe(std::string_view name);

}  // namespace zeroproof::verification
