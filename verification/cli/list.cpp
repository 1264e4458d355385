#include <cstdio>

#include "cuda/faults.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/experiment.hpp"

namespace zeroproof::verification {
namespace {

int list(const CaseFlags& flags, bool faults) {
  if (faults) {
    for (const cuda::Fault& fault : cuda::fault_catalogue()) {
      std::printf("%-32s %-16s %-8s %s\n", std::string(fault.id).c_str(),
                  std::string(fault.fault_class).c_str(), std::string(name(fault.phase)).c_str(),
                  std::string(fault.summary).c_str());
    }
    return 0;
  }
  VerifyOptions options = options_from(flags);
  if (options.patterns.empty()) options.patterns = workload_names();
  const std::vector<CaseSpec> cases = selected_cases(options);
  for (const CaseSpec& spec : cases) std::printf("%s\n", spec.id().c_str());
  return cases.empty() ? 4 : 0;
}

}  // namespace

void add_list(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* command =
      app.add_subcommand("list", "print the ids of the cases a verify with the same flags would run");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(*command);
  const auto faults = std::make_shared<bool>(false);
  command->add_flag("--faults", *faults, "print the faults that can be planted instead");
  command->callback([flags, faults, &chosen] { chosen = [flags, faults] { return list(*flags, *faults); }; });
}

}  // namespace zeroproof::verification
