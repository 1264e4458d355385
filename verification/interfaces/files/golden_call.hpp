#pragma once
// Golden files of one call of an operation: inputs and results, kept. Where any legal order has a bound, results with
// other bits are still right inside of it, which no trajectory can say.

#include <optional>
#include <string>
#include <vector>

#include "verification/interfaces/files/call_file.hpp"
#include "verification/ops/bound_ratio.hpp"
#include "verification/ops/op_candidate.hpp"
#include "verification/tools/train/dump/golden.hpp"

namespace zeroproof::verification {

/// True of a record of one call; everything else is of a trajectory.
bool of_a_call(const GoldenRecord& record);

/// Writes a call, the reference's results and the record. Errors: config as choose_call, and if the file is there.
GoldenRecord record_golden_call(const CallRequest& request, const std::string& file);

struct GoldenCallRow {
  std::string buffer;
  std::int64_t elements = 0, differing = 0;
  std::optional<BoundRatio> ratio;  ///< of what differs, where there is a bound
  std::string why;                  ///< what there is instead of a bound

  GoldenVerdict verdict() const;
};

struct GoldenCallCheck {
  GoldenRecord record;
  std::string call, by;                  ///< what was computed, and by whom
  std::vector<std::string> environment;  ///< what is not as it was
  std::vector<GoldenCallRow> rows;
  std::string broken;  ///< what the candidate did besides; "" if nothing

  GoldenVerdict verdict() const;
};

/// Computes the call again, by the reference or by somebody else, and compares with what was kept. Errors: io if file
/// and record cannot be read or do not belong together; config for another contract, or a candidate without the
/// operation.
GoldenCallCheck check_golden_call(const std::string& file, const OpCandidate* candidate);

/// For a person: a line for every buffer, and the verdict.
std::string to_text(const GoldenCallCheck& check, const std::string& file);

/// The reference's results anew, with a reason. Errors: as check_golden_call, but for the contract.
GoldenRecord update_golden_call(const std::string& file, const std::string& reason);

/// Of two files with results of one call, the first with its inputs: a line for every result that differs and has a
/// bound. "" where the first file is no call.
std::string bounds_of_results(const std::string& call, const std::string& results);

}  // namespace zeroproof::verification
