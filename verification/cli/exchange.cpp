// zeroproof gen and zeroproof judge: an operation computed by any program, in files.

#include <cstdio>
#include <memory>

#include "verification/cases/config/acceptance.hpp"
#include "verification/cli/commands.hpp"
#include "verification/interfaces/files/judged_call.hpp"

namespace zeroproof::verification {
namespace {

struct GenFlags {
  CallRequest request;
  std::string out;
};

struct JudgeFlags {
  std::string inputs, outputs, dialect, accept;
};

int gen(const GenFlags& flags) {
  const CallChoice choice = choose_call(flags.request);
  write_call(choice, flags.out);
  std::printf("%s: %s\n", choice.text().c_str(), flags.out.c_str());
  return 0;
}

int judge(const JudgeFlags& flags) {
  const JudgedCall judged =
      judge_call(flags.inputs, flags.outputs, flags.dialect,
                 acceptance_of(flags.accept, "--accept", AcceptedDialects::no));
  std::fputs(judged.text.c_str(), stdout);
  return judged.pass ? 0 : 1;
}

}  // namespace

void add_gen(CommandSet& commands) {
  const Command command =
      commands.add("gen", "write one call of an operation, for any program to compute");
  const auto flags = std::make_shared<GenFlags>();
  command.required("case", flags->request.operation,
                   "an operation, as adamw_update or op/adamw_update/fill:ties");
  command.required("-o,--out", flags->out, "safetensors file to write");
  command.option("--fill", flags->request.fill, "distribution of the inputs (default: training)");
  command.option("--numel", flags->request.numel, "elements (default: 1000)");
  command.option("--seed", flags->request.seed, "of the inputs (default: 1)");
  command.option("--variant", flags->request.variant,
                 "settings, by number or name; zeroproof explain lists them (default: the first)");
  command.runs([flags] { return gen(*flags); });
}

void add_judge(CommandSet& commands) {
  const Command command = commands.add(
      "judge", "compare a program's results for a file of gen with the reference, bit by bit");
  const auto flags = std::make_shared<JudgeFlags>();
  command.required("inputs", flags->inputs, "the file that gen wrote");
  command.required("outputs", flags->outputs,
                   "the results of the program: after.NAME for every output");
  command.option("--dialect", flags->dialect,
                 "compare with a dialect instead (zeroproof explain dialects)");
  command.option(
      "--accept", flags->accept,
      "how results are compared: bits (default); any-order, within a proved bound for any legal "
      "order; or any-order,fp32-powers, also with powers of beta in fp32");
  command.runs([flags] { return judge(*flags); });
}

}  // namespace zeroproof::verification
