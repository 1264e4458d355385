#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

OpFunction run_normalise(GradNormNormaliseFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const Span<std::uint64_t> words =
          call.get<std::uint64_t>(0).subspan(i * limb_words, limb_words);
      NormLimbs limbs = get_limbs(words);
      implementation(limbs);
      put_limbs(limbs, words);
    }
  };
}

}  // namespace

std::vector<Op> grad_norm_ops() {
  Op accumulate;
  accumulate.name = "grad_norm_accumulate";
  accumulate.contract = "grad_norm.hpp";
  accumulate.type = "GradNormAccumulateFn";
  accumulate.exactness = Exactness::ordered;
  accumulate.phases = {Phase::norm};
  accumulate.variants = {"from zero", "onto limbs", "two pieces"};
  accumulate.operands = {input("grad"), fixed(output("limbs", DType::u64), limb_words)};
  accumulate.fills = number_fills();
  accumulate.reference = run_accumulate(reference::grad_norm_accumulate,
                                        reference::grad_norm_normalise, norm_chunk_numel);
  accumulate.host = run_accumulate(cuda::host::grad_norm_accumulate,
                                   cuda::host::grad_norm_normalise, norm_chunk_numel);
  accumulate.device = run_accumulate(on_device<cuda::device::grad_norm_accumulate>,
                                     cuda::host::grad_norm_normalise, norm_chunk_numel);
  accumulate.host_of = [](const cuda::KernelTable& ops) {
    return run_accumulate(ops.grad_norm_accumulate, cuda::host::grad_norm_normalise,
                          norm_chunk_numel);
  };

  Op normalise;
  normalise.name = "grad_norm_normalise";
  normalise.contract = "grad_norm.hpp";
  normalise.type = "GradNormNormaliseFn";
  normalise.exactness = Exactness::integer;
  normalise.phases = {Phase::norm};
  normalise.operands = {per_element(in_place("limbs", Content::given, DType::u64), limb_words)};
  normalise.fills = {Fill::sweep};
  normalise.largest = 4097;
  normalise.generate = draw_limbs;
  normalise.reference = run_normalise(reference::grad_norm_normalise);
  normalise.host = run_normalise(cuda::host::grad_norm_normalise);
  normalise.device = run_normalise(cuda::device::grad_norm_normalise);

  Op finish = normalise;
  finish.name = "grad_norm_finish";
  finish.type = "GradNormFinishFn";
  finish.exactness = Exactness::bitwise;
  finish.operands = {per_element(input("limbs", Content::given, DType::u64), limb_words),
                     output("grad_norm", DType::fp64)};
  finish.reference = run_limbs_finish(reference::grad_norm_finish);
  finish.host = run_limbs_finish(cuda::host::grad_norm_finish);
  finish.device = run_limbs_finish(cuda::device::grad_norm_finish);
  return {accumulate, normalise, finish};
}

}  // namespace zeroproof::verification
