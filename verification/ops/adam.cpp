#include "cuda/device/adam.hpp"

#include "cuda/host/adam.hpp"
#include "reference/adam.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/scalar_sets.hpp"

namespace zeroproof::verification {
namespace {

OpFunction run(AdamwUpdateFn* twin) {
  return [twin](OpCall& call) {
    twin(call.exec, scalar_set(call.variant()), call.in<float>(0), call.get<float>(1), call.get<float>(2),
         call.get<float>(3));
  };
}

}  // namespace

std::vector<Op> adam_ops() {
  Op op;
  op.name = "adamw_update";
  op.contract = "adam.hpp";
  op.type = "AdamwUpdateFn";
  op.phases = {Phase::update};
  op.variants = scalar_set_names();
  op.operands = {input("grad"), in_place("master", Content::weight), in_place("exp_avg", Content::moment),
                 in_place("exp_avg_sq", Content::second_moment)};
  op.fills = number_fills();
  op.reference = run(reference::adamw_update);
  op.host = run(cuda::host::adamw_update);
  op.device = run(cuda::device::adamw_update);
  return {op};
}

}  // namespace zeroproof::verification
