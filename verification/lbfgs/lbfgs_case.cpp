#include "verification/lbfgs/lbfgs_case.hpp"

#include <algorithm>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& text,
                         const std::vector<std::string>& known) {
  fail(ErrorCode::config, "L-BFGS " + what + " '" + text + "' does not exist",
       "the case id names nothing that can run", "did you mean " + nearest(text, known) + "?");
}

/// The recipe an id names, or nullptr if it ends before that. Errors: there is no such workload or recipe.
const LbfgsRecipe* named_recipe(const std::vector<std::string>& parts) {
  if (parts.size() < 2 || parts[1].empty()) return nullptr;
  const bool whole = parts.size() >= 3 && !parts[2].empty();
  std::vector<std::string> workloads;
  std::vector<std::string> recipes;
  for (const LbfgsRecipe& recipe : lbfgs_recipes()) {
    workloads.emplace_back(recipe.workload);
    if (recipe.workload != parts[1]) continue;
    if (whole && recipe.name == parts[2]) return &recipe;
    recipes.emplace_back(recipe.name);
  }
  if (recipes.empty()) refuse("workload", parts[1], workloads);
  if (whole) refuse("recipe", parts[2], recipes);
  return nullptr;
}

LbfgsCaseSpec parse_id(const LbfgsRecipe& recipe, const std::vector<std::string>& parts) {
  LbfgsCaseSpec spec;
  spec.recipe = &recipe;
  spec.world = parse_world(parts[3]);
  ZP_CHECK(spec.world.kind != WorldSpec::Kind::mpi, ErrorCode::config,
           "an L-BFGS case was asked for in world " + spec.world.id(),
           "its ranks are threads of one process, which hold the truth they are compared with",
           "use threads:" + std::to_string(spec.world.size));
  spec.layout = parse_choice<LayoutKind>("layout", parts[4]);
  return spec;
}

std::vector<LbfgsCaseSpec> usual_cases() {
  std::vector<LbfgsCaseSpec> cases;
  for (const LbfgsRecipe& recipe : lbfgs_recipes()) {
    cases.push_back({&recipe, {}, LayoutKind::contract});
    for (const int size : {2, 3}) {
      for (const LayoutKind layout : {LayoutKind::contract, LayoutKind::deepspeed_flat, LayoutKind::fsdp2}) {
        cases.push_back({&recipe, {WorldSpec::Kind::threads, size}, layout});
      }
    }
  }
  return cases;
}

}  // namespace

std::string LbfgsCaseSpec::id() const {
  return "lbfgs/" + std::string(recipe->workload) + "/" + std::string(recipe->name) + "/" + world.id() + "/" +
         std::string(name(layout));
}

bool names_lbfgs(const std::string& pattern) { return pattern == "lbfgs" || pattern.rfind("lbfgs/", 0) == 0; }

std::vector<LbfgsCaseSpec> lbfgs_cases(const std::string& pattern) {
  const std::vector<std::string> parts = id_parts(pattern);
  const bool wild = pattern.find_first_of("*?") != std::string::npos;
  const LbfgsRecipe* recipe = wild ? nullptr : named_recipe(parts);
  if (recipe != nullptr && parts.size() == 5) return {parse_id(*recipe, parts)};
  std::vector<LbfgsCaseSpec> selected;
  for (const LbfgsCaseSpec& spec : usual_cases()) {
    const std::string id = spec.id();
    const bool begins = id.rfind(pattern, 0) == 0 && (pattern.back() == '/' || id[pattern.size()] == '/');
    if (wild ? matches(pattern, id) : begins) selected.push_back(spec);
  }
  return selected;
}

}  // namespace zeroproof::verification
