#include "verification/training/lbfgs/lbfgs_case.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/id_pattern.hpp"

namespace zeroproof::verification {
namespace {

IdGrammar lbfgs_grammar() {
  using Parts = std::vector<std::string>;
  return {{"suite", [](const Parts&) { return Parts{"lbfgs"}; }},
          {"L-BFGS workload",
           [](const Parts&) {
             Parts workloads;
             for (const LbfgsRecipe& recipe : lbfgs_recipes())
               workloads.emplace_back(recipe.workload);
             return workloads;
           }},
          {"L-BFGS recipe",
           [](const Parts& before) {
             Parts names;
             for (const LbfgsRecipe& recipe : lbfgs_recipes()) {
               if (recipe.workload == before[1]) names.emplace_back(recipe.name);
             }
             return names;
           }},
          {"world", [](const Parts&) { return Parts{}; }},
          {"layout", [](const Parts&) { return Parts{}; }}};
}

/// The case of a complete id.
LbfgsCaseSpec case_of(const std::string& id) {
  const std::vector<std::string> parts = id_parts(id);
  LbfgsCaseSpec spec;
  spec.recipe = &*std::find_if(lbfgs_recipes().begin(), lbfgs_recipes().end(),
                               [&](const LbfgsRecipe& recipe) {
                                 return recipe.workload == parts[1] && recipe.name == parts[2];
                               });
  spec.world = parse_world(parts[3]);
  ZP_CHECK(!spec.world.has_processes(), ErrorCode::config,
           "an L-BFGS case cannot run in world " + spec.world.id(),
           "its ranks are threads of one process",
           "use threads:" + std::to_string(spec.world.size));
  spec.layout = parse_choice<LayoutKind>("layout", parts[4]);
  return spec;
}

std::vector<LbfgsCaseSpec> usual_cases() {
  std::vector<LbfgsCaseSpec> cases;
  for (const LbfgsRecipe& recipe : lbfgs_recipes()) {
    cases.push_back({&recipe, {}, LayoutKind::contract});
    for (const int size : {2, 3}) {
      for (const LayoutKind layout :
           {LayoutKind::contract, LayoutKind::deepspeed_flat, LayoutKind::fsdp2}) {
        cases.push_back({&recipe, {WorldSpec::Kind::threads, size}, layout});
      }
    }
  }
  return cases;
}

}  // namespace

std::string LbfgsCaseSpec::id() const {
  return "lbfgs/" + std::string(recipe->workload) + "/" + std::string(recipe->name) + "/" +
         world.id() + "/" + std::string(name(layout));
}

std::vector<LbfgsCaseSpec> lbfgs_cases(const std::string& pattern) {
  const std::vector<std::string> ids = select_ids(pattern, lbfgs_grammar(), [] {
    std::vector<std::string> usual;
    for (const LbfgsCaseSpec& spec : usual_cases()) usual.push_back(spec.id());
    return usual;
  });
  std::vector<LbfgsCaseSpec> cases;
  for (const std::string& id : ids) cases.push_back(case_of(id));
  return cases;
}

}  // namespace zeroproof::verification
