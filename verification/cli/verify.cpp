#include "verification/cli/commands.hpp"
#include "verification/cli/expect.hpp"

namespace zeroproof::verification {

void add_verify(CommandSet& commands) {
  const Command command = commands.add("verify",
                                       "run cases and compare production with the reference, phase "
                                       "by phase or one operation at a time");
  const auto request = std::make_shared<VerifyRequest>();
  const std::shared_ptr<CaseFlags> flags = add_case_flags(command, true);
  add_report_flags(command, *request);
  add_dump_flags(command, request->dump);
  command.option("--evidence", request->evidence,
                 "JSON file: every selected case, run twice, with the class of every rank "
                 "(deterministic, nondeterministic, not verified), the verdict of the reference "
                 "and, in zeroproof-faults, the planted faults caught; see zeroproof evidence");
  command.option(
      "--expect", request->expect,
      "safetensors file with the results of another optimizer for the same gradients: no "
      "case is run, and its tensors, named as by --dump, are compared with the "
      "undistributed optimizer, by bits or, with --accept any-order, within the bounds of any "
      "legal order");
  command.option("--phase-names", request->phase_names,
                 "TOML file that maps its tensor names, as in exp_avg = \"state.{step}.{name}.m\"");
  command.runs([flags, request] {
    request->cases = *flags;
    check_expect_flags(*request);
    if (!request->expect.empty()) return run_expect(*request);
    return run_verify(*request);
  });
}

}  // namespace zeroproof::verification
