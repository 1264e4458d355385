#pragma once

#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// Adds the gradient parts of tensors that every TP rank has whole, by the tree of R11, part i from
/// TP rank i; every TP rank gets the sum. Other tensors keep their bits. Collective over setup.tp.
///
/// Shapes   grad: [unit.numel()], a micro-batch gradient or the gradient of a unit, in fp32.
void combine_tp_parts(const OptimizerSetup& setup, const FlatRange& unit, std::vector<float>& grad);

}  // namespace zeroproof::reference
