#pragma once
// Golden files of one call of an operation: stored inputs and results. Where a bound for any legal
// order exists, results with other bits are still correct inside of it, which a trajectory cannot
// decide.

#include <optional>
#include <string>
#include <vector>

#include "verification/interfaces/files/call_file.hpp"
#include "verification/ops/bound_ratio.hpp"
#include "verification/ops/op_candidate.hpp"
#include "verification/tools/train/dump/golden.hpp"

namespace zeroproof::verification {

/// True for a record of one call; every other record is of a trajectory.
bool of_a_call(const GoldenRecord& record);

/// Writes a call, its results by the reference or by `candidate`, and the record. Errors: config as
/// choose_call, if the file is there, or for a candidate without the operation or with wrong
/// results.
GoldenRecord record_golden_call(const CallRequest& request, const std::string& file,
                                const OpCandidate* candidate = nullptr);

struct GoldenCallRow {
  std::string buffer;
  std::int64_t elements = 0, differing = 0;
  std::optional<BoundRatio> ratio;  ///< of the results, if there is a bound
  std::string why;                  ///< the reason if there is no bound

  GoldenVerdict verdict() const;
};

struct GoldenCallCheck {
  GoldenRecord record;
  std::string call, by;                  ///< the call, and the implementation that computed it
  std::vector<std::string> environment;  ///< changes since the record
  std::vector<GoldenCallRow> rows;
  std::string broken;  ///< side effect of the candidate; "" if none

  GoldenVerdict verdict() const;
};

/// Computes the call again, by the reference or by `candidate`, and compares with the stored
/// results. Errors: io if file and record cannot be read or do not belong together; config for
/// another contract, a candidate without the operation, or a library's file without a candidate.
GoldenCallCheck check_golden_call(const std::string& file, const OpCandidate* candidate);

/// For the terminal: one line per buffer, and the verdict.
std::string to_text(const GoldenCallCheck& check, const std::string& file);

/// Writes the results again, by the reference or by the library whose bits the file has, with a
/// reason. Errors: as record_golden_call; config if the file has the bits of the other one.
GoldenRecord update_golden_call(const std::string& file, const std::string& reason,
                                const OpCandidate* candidate = nullptr);

/// For two files with results of one call, the first with its inputs: a line for every differing
/// result that has a bound. "" if the first file is not a call.
std::string bounds_of_results(const std::string& call, const std::string& results);

}  // namespace zeroproof::verification
