#pragma once
// Calls of updates as steps of a dialect.

#include <memory>
#include <string>

#include "verification/ops/op_expectation.hpp"
#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::verification {

/// True for the updates that dialects define.
bool has_dialects(const Op& op);

/// The hyper-parameters of a call in the form of a program's configuration. Only for such an
/// update.
DialectHyper hyper_of_call(const Op& op, const OpCall& call);

/// Errors (ErrorCode::config): there is none of that name; the message names the nearest.
const Dialect& dialect_named(const std::string& name);

/// Computes the step in the buffers of `call`, in place.
void compute_dialect(const Dialect& dialect, const Op& op, OpCall& call);

/// The dialect that results are compared with. Errors: as dialect_named.
std::shared_ptr<const OpExpectation> dialect_expectation(const std::string& name);

}  // namespace zeroproof::verification
