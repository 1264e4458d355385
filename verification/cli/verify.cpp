#include "verification/cli/commands.hpp"
#include "verification/cli/run_verify.hpp"

namespace zeroproof::verification {

void add_verify(CommandSet& commands) {
  const Command command = commands.add(
      "verify",
      "run cases and compare production with the reference, phase by phase or one operation at a time");
  const auto request = std::make_shared<VerifyRequest>();
  const std::shared_ptr<CaseFlags> flags = add_case_flags(command);
  add_report_flags(command, *request);
  add_dump_flags(command, request->dump);
  command.runs([flags, request] {
    request->cases = *flags;
    return run_verify(*request);
  });
}

}  // namespace zeroproof::verification
