#pragma once
// A comparison of dumps, buffer by buffer in the order of computation in a step.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verification/compare/tensors/set_comparison.hpp"
#include "verification/tools/train/dump/dump_plan.hpp"

namespace zeroproof::verification {

/// All tensors of one buffer, over steps and parameters.
struct BufferRow {
  std::string name;  ///< that of the buffer; "step_scalars" for all its words
  BufferId id = BufferId::master;
  TensorTotals totals;
  std::int64_t first_step =
      -1;  ///< that differs, or has a tensor that is missing or of another shape or type; -1: none

  bool equal() const { return first_step < 0; }
};

/// Rows in the order of the plan; buffers without a compared or missing tensor have none. tensors:
/// comparison.tensors[i] belongs to tensors[i].
std::vector<BufferRow> buffer_rows(const DumpPlan& plan, const std::vector<DumpTensor>& tensors,
                                   const SetComparison& comparison);

/// A line for every row, at most 100 columns wide; verdict: the text at its end.
std::string buffer_table(const std::vector<BufferRow>& rows,
                         const std::function<std::string(const BufferRow&)>& verdict);

/// Lines that name the first difference in the order of the data (step, buffer, parameter, element)
/// with both values:
/// want is that of the first set. "" if all is equal.
std::string first_difference(const DumpPlan& plan, const std::vector<DumpTensor>& tensors,
                             const SetComparison& comparison);

}  // namespace zeroproof::verification
