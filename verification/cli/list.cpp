#include <cstdio>

#include "cuda/faults/catalogue.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/experiment.hpp"
#include "verification/recipes.hpp"
#include "verification/selection.hpp"

namespace zeroproof::verification {
namespace {

int list(const CaseFlags& flags, bool faults, bool with_recipes) {
  if (with_recipes) {
    for (const Recipe& recipe : recipes()) {
      std::printf("%-18s %s\n", std::string(recipe.name).c_str(), std::string(recipe.summary).c_str());
    }
    return 0;
  }
  if (faults) {
    for (const cuda::Fault& fault : cuda::fault_catalogue()) {
      std::printf("%-32s %-16s %-8s %s\n", std::string(fault.id).c_str(),
                  std::string(fault.fault_class).c_str(), std::string(cuda::place_of(fault)).c_str(),
                  std::string(fault.summary).c_str());
    }
    return 0;
  }
  VerifyOptions options = options_from(flags);
  if (options.patterns.empty() && options.gradients.empty()) options.patterns = workload_names();
  const std::vector<std::string> ids = select_cases(options).ids();
  for (const std::string& id : ids) std::printf("%s\n", id.c_str());
  return ids.empty() ? 4 : 0;
}

}  // namespace

void add_list(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* command =
      app.add_subcommand("list", "print the ids of the cases a verify with the same flags would run");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(*command);
  const auto faults = std::make_shared<bool>(false);
  const auto with_recipes = std::make_shared<bool>(false);
  command->add_flag("--recipes", *with_recipes, "print the variations of the step instead");
  command->add_flag("--faults", *faults, "print the faults that can be planted instead");
  command->callback([flags, faults, with_recipes, &chosen] {
    chosen = [flags, faults, with_recipes] { return list(*flags, *faults, *with_recipes); };
  });
}

}  // namespace zeroproof::verification
