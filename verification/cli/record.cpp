#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/training/record.hpp"

namespace zeroproof::verification {
namespace {

struct RecordFlags {
  CaseFlags settings;
  std::string workload = workload_names().front();
  std::string dtype = "fp32";
  std::string file;
};

int record(const RecordFlags& flags) {
  workload_defaults(flags.workload);  // throws for a workload that does not exist
  const RunConfig config = config_of(options_from(flags.settings), flags.workload);
  const Experiment experiment(flags.workload, config, parse_param_dtype(flags.dtype),
                              load_text(config));
  record_gradients(experiment, flags.file);
  std::printf("recorded %lld steps of %lld micro-batches, %zu tensors with %lld parameters: %s\n",
              static_cast<long long>(config.steps), static_cast<long long>(config.micro_batches),
              experiment.layout().tensors().size(),
              static_cast<long long>(experiment.layout().numel()), flags.file.c_str());
  return 0;
}

}  // namespace

void add_record(CommandSet& commands) {
  const Command command = commands.add(
      "record",
      "write the gradients of a workload to a safetensors file, for verify --gradients FILE");
  const auto flags = std::make_shared<RecordFlags>();
  command.required("file", flags->file, "safetensors file to write");
  command.option("--workload", flags->workload, workload_list() + " (default: byte_gpt)");
  command.option("--dtype", flags->dtype,
                 "parameter dtype the gradients are computed with (default: fp32)");
  constexpr SharedFlag shared[] = {{"--config", "TOML settings"},
                                   {"--text"},
                                   {"--seed"},
                                   {"--steps"},
                                   {"--micro-batches", "micro-batches per step"}};
  add_shared_flags(command, flags->settings, shared);
  command.runs([flags] { return record(*flags); });
}

}  // namespace zeroproof::verification
