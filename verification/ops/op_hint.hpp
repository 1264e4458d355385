#pragma once

#include <string>

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

/// A likely cause of what differs in operand `k` of a call, read off its inputs, settings and other results; "" if the
/// data says none (compare/hint).
std::string op_hint(const Op& op, std::size_t k, const OpCall& pristine, const OpCall& reference,
                    const OpCall& candidate);

}  // namespace zeroproof::verification
