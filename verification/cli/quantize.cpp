#include <cstdio>
#include <optional>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cli/commands.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/quantize/calibration/quantize_report.hpp"
#include "verification/tools/quantize/calibration/quantized_file.hpp"

namespace zeroproof::verification {
namespace {

struct QuantizeFlags {
  std::string model, rules, text, evaluation, samples, out, semantics, histogram, world, json_file;
};

std::int64_t samples_of(const std::string& text) {
  if (text.empty()) return 128;
  const bool digits = text.size() <= 7 && text.find_first_not_of("0123456789") == std::string::npos;
  ZP_CHECK(digits && std::stoll(text) >= 1, ErrorCode::config, "--samples is '" + text + "'",
           "expected a number of windows of the text", "use 1 to 9999999");
  return std::stoll(text);
}

int quantize(const QuantizeFlags& flags) {
  std::optional<QuantSemantics> semantics;
  if (!flags.semantics.empty())
    semantics = parse_choice<QuantSemantics>("--semantics", flags.semantics);
  const auto growth = flags.histogram.empty()
                          ? HistogramGrowth::doubling
                          : parse_choice<HistogramGrowth>("--histogram", flags.histogram);
  const std::int64_t samples = samples_of(flags.samples);
  const WorldSpec world = flags.world.empty() ? WorldSpec{} : parse_world(flags.world);
  check_report_file(flags.out);
  if (!flags.json_file.empty()) check_report_file(flags.json_file);
  for (const std::string& output : {flags.out, flags.json_file})
    check_not_input(output, {flags.model, flags.rules, flags.text, flags.evaluation});
  check_not_input(flags.json_file, {flags.out});

  const QuantizationConfig config = load_quantization(flags.rules, semantics);
  const ModelFile model = read_model_file(flags.model);
  std::vector<std::string> names;
  for (const TensorSlot& slot : model.layout.tensors()) names.push_back(slot.name);
  const QuantizationAssignment assignment = assign(config, names, flags.model);
  const std::int64_t shortest = model.shape.context + 1;
  QuantizeJob job{model, assignment, workload::read_text_file(flags.text, shortest), {}};
  if (!flags.evaluation.empty())
    job.evaluation = workload::read_text_file(flags.evaluation, shortest);
  job.samples = samples;
  job.growth = growth;
  job.world = world;
  QuantizeResult result;
  {
    ProgressBar bar;
    job.progress = [&](double fraction, const std::string& what) { bar.show(fraction, what); };
    result = run_quantize_job(job);
  }
  write_quantized_file(flags.out, job, result);
  if (!flags.json_file.empty())
    write_report_file(flags.json_file, quantize_json(job, result, flags.rules));
  std::fputs(quantize_text(job, result).c_str(), stdout);
  std::printf("written: %s\n", flags.out.c_str());
  return 0;
}

}  // namespace

void add_quantize(CommandSet& commands) {
  const Command command =
      commands.add("quantize",
                   "calibrate a model with a text, write its tensors as codes with scales, report "
                   "the loss of accuracy");
  const auto flags = std::make_shared<QuantizeFlags>();
  command.required("model", flags->model,
                   "FILE.safetensors: parameters of byte_gpt or byte_gpt_tiny, or a dump");
  command.required("--config", flags->rules,
                   "YAML file of rules, as zeroproof quantization takes it");
  command.required("--calibrate", flags->text, "text for the calibration");
  command.required("-o,--output", flags->out, "safetensors file for codes and scales");
  command.option("--evaluate", flags->evaluation,
                 "text for the perplexity before and after (default: the windows that calibrate)");
  command.option("--samples", flags->samples, "maximum number of windows of a text (default: 128)");
  command.option("--semantics", flags->semantics, "megatron or modelopt (default: by the file)");
  command.option("--histogram", flags->histogram,
                 "growth of the bins: doubling (default), or appended as in ModelOpt, on one rank");
  command.option("--world", flags->world,
                 "self, threads:N: all give the same bytes (default: self)");
  command.option("--json", flags->json_file, "file for all results (schema zeroproof-quantize/1)");
  command.runs([flags] { return quantize(*flags); });
}

}  // namespace zeroproof::verification
