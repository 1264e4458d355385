#include "verification/tools/quantize/calibration/quantize_report.hpp"

#include <bit>

#include "common/base/printable.hpp"
#include "common/io/json.hpp"
#include "common/step/policy.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

std::int64_t bytes_before(const QuantizeJob& job, const QuantizedTensor& tensor) {
  return job.model.layout.tensors()[tensor.tensor].numel *
         num_bytes(job.model.dtypes[tensor.tensor]);
}

std::int64_t bytes_after(const QuantizedTensor& tensor) {
  const std::size_t floats =
      tensor.scale.size() + tensor.smooth.size() + (tensor.input_amax ? 1 : 0);
  return static_cast<std::int64_t>(tensor.codes.size() + 4 * floats);
}

Json perplexity_json(const Perplexity& perplexity) {
  return {
      {"windows", perplexity.windows}, {"loss", perplexity.loss}, {"perplexity", perplexity.value}};
}

}  // namespace

std::string quantize_text(const QuantizeJob& job, const QuantizeResult& result) {
  std::string out = fmt::format("{}: {}, {} tensors, {} of them quantized, vectors never\n",
                                printable(job.model.path), job.model.workload,
                                job.model.layout.tensors().size(), result.tensors.size());
  out += fmt::format("calibrated with {} windows of {}\n\n", result.samples,
                     printable(job.calibration.path));
  out += fmt::format("{:<32} {:<18} {:>6} {:>10} {:>10} {:>8} {:>10}\n", "tensor", "codes",
                     "scales", "largest", "rms error", "SQNR dB", "input amax");
  std::int64_t before = 0, after = 0;
  for (const QuantizedTensor& tensor : result.tensors) {
    const std::string& name = job.model.layout.tensors()[tensor.tensor].name;
    out += fmt::format(
        "{:<32} {:<18} {:>6} {:>10.3e} {:>10.3e} {:>8} {:>10}\n", name, short_name(tensor.payload),
        tensor.scale.size(), tensor.error.largest, tensor.error.rms,
        tensor.error.sqnr_db ? fmt::format("{:.2f}", *tensor.error.sqnr_db) : "-",
        tensor.input_amax ? fmt::format("{:.4g}", std::bit_cast<float>(*tensor.input_amax)) : "-");
    before += bytes_before(job, tensor);
    after += bytes_after(tensor);
  }
  out += fmt::format("\nbytes of these tensors: {} before, {} after, with scales\n", before, after);
  out += fmt::format("perplexity over {} windows: {:.6f} before, {:.6f} after\n",
                     result.before.windows, result.before.value, result.after.value);
  return out;
}

std::string quantize_json(const QuantizeJob& job, const QuantizeResult& result,
                          const std::string& rules) {
  Json tensors = Json::array();
  for (const QuantizedTensor& tensor : result.tensors) {
    tensors.push_back(
        {{"tensor", job.model.layout.tensors()[tensor.tensor].name},
         {"payload", payload_json(tensor.payload)},
         {"scales", tensor.scale.size()},
         {"bytes_before", bytes_before(job, tensor)},
         {"bytes_after", bytes_after(tensor)},
         {"largest_error", tensor.error.largest},
         {"rms_error", tensor.error.rms},
         {"sqnr_db", tensor.error.sqnr_db ? Json(*tensor.error.sqnr_db) : Json(nullptr)},
         {"input_amax",
          tensor.input_amax ? Json(std::bit_cast<float>(*tensor.input_amax)) : Json(nullptr)}});
  }
  const Json json = {{"schema", "zeroproof-quantize/1"},
                     {"program", std::string("zeroproof ") + ZP_VERSION},
                     {"numeric_contract", contract_version},
                     {"model", job.model.path},
                     {"workload", job.model.workload},
                     {"rules", rules},
                     {"text", job.calibration.path},
                     {"windows", result.samples},
                     {"histogram", names_of(job.growth)[static_cast<std::size_t>(job.growth)]},
                     {"before", perplexity_json(result.before)},
                     {"after", perplexity_json(result.after)},
                     {"tensors", tensors}};
  return json.dump(2) + "\n";
}

}  // namespace zeroproof::verification
