#include <unistd.h>

#include <cstdio>
#include <optional>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cli/commands.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/plan/model.hpp"
#include "verification/tools/quantize/report.hpp"

namespace zeroproof::verification {
namespace {

struct QuantizationFlags {
  std::string file, model, semantics, json_file;
  bool fields = false;
};

int show_fields(const QuantizationFlags& flags) {
  ZP_CHECK(flags.file.empty() && flags.model.empty() && flags.semantics.empty() &&
               flags.json_file.empty(),
           ErrorCode::config, "--fields was given with something else",
           "the table of fields does not depend on a file", "leave one of the two out");
  std::fputs(payload_fields_text().c_str(), stdout);
  return 0;
}

int quantization(const QuantizationFlags& flags) {
  if (flags.fields) return show_fields(flags);
  ZP_CHECK(!flags.file.empty(), ErrorCode::config, "no file was named",
           "rules are read from a file", "name a YAML file, or use --fields to list its fields");
  ZP_CHECK(!flags.model.empty(), ErrorCode::config, "no model was named",
           "rules match the names of its tensors",
           "add --model with MODEL.toml, FILE.safetensors, " + workload_list());
  std::optional<QuantSemantics> semantics;
  if (!flags.semantics.empty())
    semantics = parse_choice<QuantSemantics>("--semantics", flags.semantics);
  if (!flags.json_file.empty()) check_report_file(flags.json_file);
  check_not_input(flags.json_file, {flags.file, flags.model});
  const QuantizationConfig config = load_quantization(flags.file, semantics);
  std::vector<std::string> tensors;
  for (const PlannedTensor& tensor : load_model(flags.model).tensors)
    tensors.push_back(tensor.spec.name);
  const QuantizationAssignment assignment = assign(config, tensors, flags.model);
  if (!flags.json_file.empty())
    write_report_file(flags.json_file, quantization_json(config, assignment, flags.model));
  std::fputs(
      quantization_text(config, assignment, flags.model, wants_colour(STDOUT_FILENO)).c_str(),
      stdout);
  return 0;
}

}  // namespace

void add_quantization(CommandSet& commands) {
  const Command command = commands.add("quantization",
                                       "print which rule of a QuantizationConfig in YAML applies "
                                       "to each tensor of a model, and why");
  const auto flags = std::make_shared<QuantizationFlags>();
  command.option("file", flags->file, "YAML file with configs and matchers, or quant_cfg");
  command.option("--model", flags->model, "MODEL.toml, FILE.safetensors, " + workload_list());
  command.option("--semantics", flags->semantics,
                 "megatron: the first rule that matches decides; modelopt: later ones override "
                 "(default: modelopt "
                 "for a file with quant_cfg, else megatron)");
  command.option("--json", flags->json_file,
                 "file for all results (schema zeroproof-quantization/1)");
  command.flag("--fields", flags->fields, "only list the fields of a payload");
  command.runs([flags] { return quantization(*flags); });
}

}  // namespace zeroproof::verification
