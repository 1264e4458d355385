#include "verification/cli/command_line.hpp"

#include "verification/cli/commands.hpp"

namespace zeroproof::verification {

int run_command_line(int argc, char** argv) {
  CommandSet commands(
      "zeroproof checks sharded optimizers, bit by bit, against a readable reference",
      version_text());
  add_verify(commands);
  add_list(commands);
  add_record(commands);
  add_diff(commands);
  add_golden(commands);
  add_doctor(commands);
  add_faults(commands);
  add_reveal(commands);
  add_explain(commands);
  add_replay(commands);
  add_evidence(commands);
  add_plan(commands);
  add_trace(commands);
  add_identify(commands);
  add_attribute(commands);
  add_gen(commands);
  add_judge(commands);
  add_judge_run(commands);
  add_train(commands);
  add_checkpoint(commands);
  add_audit(commands);
  add_quantization(commands);
  add_quantize(commands);
  return commands.run(argc, argv);
}

}  // namespace zeroproof::verification
