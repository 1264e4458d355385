#include "verification/ops/operations/bf16_update.hpp"

namespace zeroproof::verification {

Op bf16_update(Op op, std::string type, OpFunction reference, OpFunction host) {
  op.name += "_bf16";
  op.type = std::move(type);
  op.operands[0] = in_bf16(op.operands[0]);
  op.operands[1] = in_bf16(op.operands[1]);
  op.wrong_formulas = {};  // they are of fp32 results; bounds read the format of the master
  op.reference = std::move(reference);
  op.host = std::move(host);
  op.device = {};
  op.host_of = {};
  return op;
}

}  // namespace zeroproof::verification
