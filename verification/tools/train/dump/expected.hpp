#pragma once
// Compares another program's numbers with the undistributed optimizer on the same gradients and
// settings.

#include <optional>
#include <string>
#include <vector>

#include "verification/tools/train/dump/buffer_rows.hpp"
#include "verification/tools/train/dump/legal_verdict.hpp"
#include "verification/tools/train/dump/phase_names.hpp"

namespace zeroproof::verification {

struct Expectation {
  std::vector<DumpTensor> tensors;  ///< of the steps and buffers in the file, all parameters
  SetComparison comparison;         ///< of these; first: expected, second: from the file
  std::vector<BufferRow> rows;
  std::string first;  ///< the first difference in the order of the data, "" if there is none
  std::vector<std::int64_t> steps;   ///< compared
  std::vector<std::string> start;    ///< buffers that the run began with from step 0 of the file
  std::vector<std::string> ignored;  ///< tensors of the file

  std::optional<LegalVerdict> legal;  ///< with any_order
  std::vector<BufferRow> beyond;      ///< the same rows, of elements beyond their bound

  bool equal() const { return comparison.equal(); }
};

/// Finds the tensors of a run in the file, runs to the last of their steps, and compares; a missing
/// tensor of a buffer and step of which the file has another one counts as different. If the file
/// has step 0 of a buffer (master, the rule's state, applied_steps, the loss scaler's
/// log2_loss_scale, growth_tracker and hysteresis_left), the run begins there. Errors: io if the
/// file cannot be read; config if a tensor is neither part of the run nor ignored, none is to be
/// compared, one matches two tensors of the run, or step 0 is incomplete or of another form.
/// any_order: also judges the numbers by the bounds of any legal order; errors then as LegalRun.
Expectation compare_expected(const Experiment& experiment, const DumpPlan& plan,
                             const std::string& file, const PhaseNames& names,
                             bool any_order = false);

}  // namespace zeroproof::verification
