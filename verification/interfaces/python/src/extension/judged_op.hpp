#pragma once
// The operations a Python callable can be judged on: those of plug-ins, and updates together with
// the rounding of the parameter that follows them in a step.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "verification/ops/op.hpp"
#include "verification/ops/op_expectation.hpp"

namespace zeroproof::python {

/// An operation as it is judged. `base` is the contract's; `op` is the same, or has one more output, param.
struct JudgedOp {
  const verification::Op* base = nullptr;
  const verification::Op* op = nullptr;
};

/// "adamw_update", or "adamw" for short; with bf16 or fp16 the update and its param of that dtype. Valid for ever.
/// Errors (ErrorCode::config): no such operation, with the nearest; a dtype that it does not go with.
JudgedOp judged_op(const std::string& name, DType dtype);

/// The expected results: the contract, or the dialect of that name ("": the contract), in these
/// variants only. Errors (ErrorCode::config): there is no such dialect; the message names the
/// nearest.
std::unique_ptr<verification::OpExpectation> expectation(const JudgedOp& judged,
                                                         std::set<int> variants,
                                                         const std::string& dialect);

/// The names of operand values and settings that a variant is called with; empty if the operation has none.
std::vector<verification::OpSetting> settings_of(const verification::Op& op, int variant);

}  // namespace zeroproof::python
