#pragma once

#include <string>

#include "verification/bench/measure/contract_step.hpp"
#include "verification/bench/product/leaves.hpp"

namespace zeroproof::verification::bench {

/// Writes what another program needs to take the same steps and to compare: a safetensors file with
///   leaf.0 ...                    the leaves; micro-batch j has leaf j mod their number
///   first.master, .exp_avg, .exp_avg_sq    before the first step
///   master, param                 after the last one; the caller has found them to be the product's
///   tensor_begin, tensor_numel    where the tensors lie in all of these [tensors]
/// and with steps, steps_before, log2_loss_scale and micro_batches in its metadata.
/// Errors: io if the file cannot be written.
void save_case(const std::string& file, const ProductCase& what, const FlatLayout& layout,
               const Leaves& leaves, std::int64_t steps, const ContractResult& result);

}  // namespace zeroproof::verification::bench
