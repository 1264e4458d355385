// Operations of the model besides the step, and of calibration: the sweeps of verify over all
// implementations.

#include <set>

#include "cuda/device/runtime/device.hpp"
#include "cuda/host/base/isa.hpp"
#include "golden_rows.hpp"
#include "verification/ops/op_case.hpp"

namespace zeroproof::golden {
namespace {

using namespace verification;

/// All outputs of an operation in a sweep, except for its longest calls.
Digest digest_sweep(const Op& op, const OpFunction& implementation, Isa isa, int threads) {
  Hasher hasher;
  for (const Fill fill :
       {Fill::exact_sum, Fill::ties, Fill::subnormal, Fill::special, Fill::training}) {
    for (const CallShape& shape : sweep(op, fill, 1)) {
      if (shape.numel > 1025) continue;
      OpCall call(op, shape);
      call.exec.isa = isa;
      call.exec.num_threads = threads;
      implementation(call);
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        if (op.operands[k].access != Access::in) hasher.add(call.view(k));
      }
    }
  }
  return hasher.digest();
}

}  // namespace

std::vector<Row> fusion_rows(int threads) {
  const std::set<std::string> headers = {"elementary.hpp",  "activations.hpp",   "softmax.hpp",
                                         "norm_layers.hpp", "cross_entropy.hpp", "bias_dropout.hpp",
                                         "weight_grad.hpp", "fake_quantize.hpp", "histogram.hpp",
                                         "calibration.hpp"};
  std::vector<Row> rows;
  for (const Op& op : all_ops()) {
    if (headers.count(op.contract) == 0) continue;
    std::vector<Seen> seen = {{"reference", digest_sweep(op, op.reference, Isa::best, threads)}};
    for (const Isa isa : cuda::host::supported_isas()) {
      if (!op.host) break;
      seen.push_back(
          {"host " + std::string(cuda::host::name(isa)), digest_sweep(op, op.host, isa, threads)});
    }
    if (op.device && cuda::device::device_info().answers) {
      seen.push_back({"device", digest_sweep(op, op.device, Isa::best, threads)});
    }
    rows.push_back(agreed("op " + op.name, seen));
  }
  return rows;
}

}  // namespace zeroproof::golden
