#pragma once

#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// Tensors that every TP rank has whole get a part of their gradient on each: the parts are added up by the tree of
/// R11, part i from TP rank i, and every TP rank has the sum. Other tensors keep their bits. Collective over setup.tp.
///
/// Shapes   grad: [unit.numel()], a leaf or the gradient of a unit, in fp32.
void combine_tp_parts(const OptimizerSetup& setup, const FlatRange& unit, std::vector<float>& grad);

}  // namespace zeroproof::reference
