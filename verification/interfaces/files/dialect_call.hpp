#pragma once
// Calls of updates as steps of a dialect.

#include <memory>
#include <string>

#include "verification/ops/op_expectation.hpp"
#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::verification {

/// True for the updates that dialects are known of.
bool has_dialects(const Op& op);

/// The hyper-parameters of a call, as a program configures them. Only of such an update.
DialectHyper hyper_of_call(const Op& op, const OpCall& call);

/// Errors (ErrorCode::config): there is none of that name, with the nearest.
const Dialect& dialect_named(const std::string& name);

/// Makes the step in the buffers of `call`, in place.
void compute_dialect(const Dialect& dialect, const Op& op, OpCall& call);

/// A dialect that results are held to. Errors: as dialect_named.
std::shared_ptr<const OpExpectation> dialect_expectation(const std::string& name);

}  // namespace zeroproof::verification
