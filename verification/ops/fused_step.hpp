#pragma once
// The fused passes of production (R17) as operations: they have no contract of their own, but that of the phases they
// stand for, which are what the reference runs.

#include <vector>

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

std::vector<Op> fused_step_ops();

}  // namespace zeroproof::verification
