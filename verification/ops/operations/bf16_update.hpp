#pragma once

#include <string>

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

/// An update with grad and master as its first operands, with bf16 parameters and without an fp32
/// master (R25). On a device it is part of the step.
Op bf16_update(Op op, std::string type, OpFunction reference, OpFunction host);

}  // namespace zeroproof::verification
