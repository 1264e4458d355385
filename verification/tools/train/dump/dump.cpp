#include "verification/tools/train/dump/dump.hpp"

#include "common/io/safetensors/safetensors_writer.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/training/case_groups.hpp"
#include "verification/training/record.hpp"

namespace zeroproof::verification {

Experiment experiment_of(const VerifyOptions& options, const CaseSpec& spec) {
  return experiment_of(
      options, spec,
      {{spec.workload, options.gradients.empty() ? load_text(config_of(options, spec.workload))
                                                 : recorded_text(options.gradients)}});
}

SafeMetadata dump_metadata(const Experiment& experiment, const std::string& case_id) {
  std::string order;
  for (const TensorSlot& slot : experiment.layout().tensors())
    order += (order.empty() ? "" : "\n") + slot.name;
  SafeMetadata metadata = {{"contract_version", std::to_string(contract_version)},
                           {"source", "zeroproof " ZP_VERSION},
                           {"workload", experiment.workload()},
                           {"recipe", experiment.recipe()},
                           {"dtype", std::string(name(experiment.param_dtype()))},
                           {"settings", settings_text(experiment)},
                           {"order", order}};
  if (!case_id.empty()) metadata["case"] = case_id;
  return metadata;
}

TrainingTrace write_dump(const Experiment& experiment, const DumpPlan& plan,
                         const std::vector<DumpTensor>& tensors, const std::string& file,
                         const std::string& case_id, const FullState* start) {
  std::vector<SafeTensorSpec> specs;
  for (const DumpTensor& tensor : tensors) specs.push_back(tensor.spec);
  SafetensorsWriter writer(file, specs, dump_metadata(experiment, case_id),
                           workload::recording_limits());
  GradCache leaves(experiment);
  DenseBaseline baseline(experiment, leaves, nullptr, start);
  std::int64_t step = 0;
  for (const DumpTensor& tensor : tensors) {
    while (step < tensor.step) {
      baseline.step(++step);
      leaves.forget();
    }
    writer.write(tensor.spec.name, plan.bytes_of(tensor, baseline.optimizer()));
  }
  writer.finish();
  return baseline.trace();
}

}  // namespace zeroproof::verification
