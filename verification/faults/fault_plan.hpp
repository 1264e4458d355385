#pragma once
// Which case must catch which planted fault, and where; measures how well the harness locates a
// fault.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"
#include "verification/cases/suite.hpp"
#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {

// Global indices of last elements in byte_gpt_tiny, whose chunks have 1,024 elements.
// Rank 0 of 3, buckets of 4 chunks: chunk 40 is the first chunk of the last bucket.
inline constexpr std::int64_t last_of_rank0 = 41 * 1024 - 1;  // 41983
// The whole model: head.weight, 256 x 15, starts at chunk 39.
inline constexpr std::int64_t last_of_model = 39 * 1024 + 256 * 15 - 1;  // 43775
// Rank 0 of 8, 5 of 43 chunks: position_embedding.weight, 195 elements, starts at chunk 4.
inline constexpr std::int64_t last_of_rank0_of_8 = 4 * 1024 + 195 - 1;  // 4290

/// The predicted part of the range of elements that differ.
struct Elements {
  std::optional<std::string_view> parameter = {};  ///< of the first element
  std::optional<std::int64_t> first = {};          ///< in the global numbering
  std::optional<std::int64_t> last = {};
};

/// Where a fault must be found. Places are derived from the effect of the fault, never copied from
/// a run.
struct FaultCase {
  std::string_view fault = {};
  std::string_view case_id = {};
  std::int64_t step = 0;  ///< counted from 1; 0 is the loaded state
  int rank = 0;
  std::string_view buffer = {};
  std::optional<Elements> elements = {};  ///< none: no element is named, as for a scalar
  std::string_view says = {};             ///< text the reason must contain
  bool refused =
      false;  ///< production must refuse: an error with the text above and none of the places
  void (*config)(RunConfig&) = nullptr;  ///< settings of the case besides its id
  std::string (*gradients)() = nullptr;  ///< path of the recording it reads
};

/// One row for every fault of the catalogue.
Span<const FaultCase> fault_plan();

/// Rows of stages, grids, layouts, groups, bins and overlap.
Span<const FaultCase> placed_fault_plan();

/// Rows of saving and loading.
Span<const FaultCase> resume_fault_plan();

/// Rows of steps on a device.
Span<const FaultCase> device_fault_plan();

/// Rows of parameters, state and masters in fewer bits.
Span<const FaultCase> format_fault_plan();

/// Rows of the rule muon.
Span<const FaultCase> muon_fault_plan();

/// Rows of operations outside the step.
Span<const FaultCase> operation_fault_plan();

/// Rows of L-BFGS: the last ones of the plan.
Span<const FaultCase> lbfgs_fault_plan();

/// The row of a fault. Errors: internal if there is none.
const FaultCase& plan_of(std::string_view fault);

/// The faults whose ids match one of the patterns (none: all). Errors: config if nothing matches.
std::vector<const Fault*> chosen_faults(const std::vector<std::string>& patterns);

/// Writes into `folder` the inputs that the cases of these faults need besides their ids: ID.toml,
/// their settings, and ID.safetensors, their gradients. Returns the paths. Errors: io, and those of
/// chosen_faults.
std::vector<std::string> write_fault_inputs(const std::vector<std::string>& patterns,
                                            const std::string& folder);

/// Outcome of the case of a row.
struct RowOutcome {
  Status status = Status::error;
  std::string reason;
  std::optional<Divergence> divergence;
};

/// Runs the only case that the options select.
RowOutcome run_one_case(const VerifyOptions& options);

/// Runs the case of a row in lock-step or free (L-BFGS: always free), with a fault or, "", without one.
RowOutcome run_row(const FaultCase& row, std::string_view fault, Mode mode);

/// How precisely one fault was found.
struct FaultFinding {
  const Fault* fault = nullptr;
  const FaultCase* expected = nullptr;
  bool caught = false;      ///< the case failed, or the fault was refused as required
  bool attributed = false;  ///< the first difference has the right phase, buffer and parameter
  bool exact = false;       ///< and the right step, rank and element range
  std::optional<Divergence> divergence;
  std::string reason;  ///< of the case
};

/// Rates the outcome of a case against its row. A place other than the expected one is never exact.
FaultFinding judge_fault(const Fault& fault, const FaultCase& expected, const RowOutcome& outcome);

/// A case of the plan without a fault, and how many of its listed faults it caught.
struct ControlFinding {
  std::string_view case_id;
  const FaultCase* row = nullptr;  ///< the first one with this case
  Status status = Status::error;   ///< without a fault; anything but pass is a false alarm
  std::string reason;
  int listed = 0;
  int killed = 0;

  /// True if the case catches none of its listed faults: then its passing proves nothing.
  bool mistrusted() const { return listed > 0 && killed == 0; }
};

struct FaultReport {
  std::vector<FaultFinding> faults;
  std::vector<ControlFinding> controls;

  int survivors() const;
  int false_alarms() const;
};

/// Plants every fault whose id matches one of the patterns (none: all), and runs each of their
/// cases once without a fault. Errors: unavailable in a program without planted faults; config if
/// nothing matches.
FaultReport run_faults(const std::vector<std::string>& patterns, const ProgressSink& progress);

/// The table for the terminal, at most 100 columns wide.
std::string to_text(const FaultReport& report, bool colour);

/// Schema "zeroproof-faults/2".
std::string to_json(const FaultReport& report);

/// 0 if every fault was found exactly, no control failed and none is mistrusted, else 1.
int exit_code(const FaultReport& report);

}  // namespace zeroproof::verification
