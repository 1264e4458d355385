#pragma once
// Somebody else's numbers, held against the undistributed optimizer of the same gradients and settings.

#include <string>
#include <vector>

#include "verification/tools/train/dump/buffer_rows.hpp"
#include "verification/tools/train/dump/phase_names.hpp"

namespace zeroproof::verification {

struct Expectation {
  std::vector<DumpTensor> tensors;  ///< of the steps and buffers that they have, all parameters
  SetComparison comparison;         ///< of these; first: what is expected, second: what they have
  std::vector<BufferRow> rows;
  std::string first;  ///< the first difference in the order of the data, "" if there is none
  std::vector<std::int64_t> steps;  ///< compared
  std::vector<std::string> start;   ///< buffers that the run began with as they have them in step 0
  std::vector<std::string> ignored;  ///< names of theirs

  bool equal() const { return comparison.equal(); }
};

/// Finds what of a run they have, runs to the last of those steps, and compares; a tensor that they lack, of a buffer
/// and step of which they have another one, counts as different. If they have step 0 of a buffer (master, the rule's
/// state, applied_steps, the loss scaler's log2_loss_scale, growth_tracker and hysteresis_left), the run begins there.
/// Errors: io if the file cannot be read; config if a tensor is none of the run and not ignored, none is to be
/// compared, one is two of the run, or step 0 is incomplete or of another form.
Expectation compare_expected(const Experiment& experiment, const DumpPlan& plan,
                             const std::string& file, const PhaseNames& names);

}  // namespace zeroproof::verification
