#pragma once
// Golden files: a dump that was reviewed once and is compared with the present results of this
// program.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/tools/train/dump/buffer_rows.hpp"
#include "verification/tools/train/dump/golden_record.hpp"

namespace zeroproof::verification {

/// Fills in a record's fields about this program and `file`, which exists already, and writes it
/// beside the file.
/// Errors: io as ReplacingFile.
void write_golden_record(GoldenRecord& record, const std::string& file,
                         const std::string& trajectory, const std::string& reason);

/// The record of a golden file. Errors: as read_golden_record(); io if the file is not the recorded
/// one, or cannot be read.
GoldenRecord golden_record_of(const std::string& file);

/// Changes since a record was written, a sentence each.
std::vector<std::string> changed_environment(const GoldenRecord& record);

/// Errors: config if there is a golden file, or a record of one, already.
void require_no_golden(const std::string& file);

/// Runs a case's trajectory, writes the dump of `steps` to `file` and its record beside it.
/// Errors: config if there is a golden file already; io as SafetensorsWriter.
GoldenRecord record_golden(const VerifyOptions& options, const CaseSpec& spec,
                           const std::vector<std::int64_t>& steps, const std::string& file);

enum class GoldenVerdict : std::uint8_t { equal, bits_changed, wrong };
std::string_view name(GoldenVerdict verdict);  ///< "equal", "bits changed within bound", "wrong"

/// The permitted difference between two correct runs in an element of a buffer: none, if the
/// contract fixes its bits.
using BoundOf = std::function<std::optional<double>(BufferId)>;

/// The bounds of the contract. All buffers of a dump have fixed bits, so there is none, and changed
/// bits are wrong.
std::optional<double> contract_bound(BufferId buffer);

/// Equal: all bits are equal. Bits changed: the buffer has a bound, and every element is within it.
/// Wrong: all other cases, also NaN against a number.
GoldenVerdict golden_verdict(const BufferRow& row, const BoundOf& bound_of = contract_bound);

struct GoldenCheck {
  GoldenRecord record;
  std::vector<std::string> environment;  ///< changes since it was recorded, a sentence each
  std::vector<BufferRow> rows;
  std::string first;  ///< the first difference, "" if there is none
  std::string extra;  ///< a tensor of the file that the run does not have, "" for none

  /// The worst of its buffers.
  GoldenVerdict verdict() const;
};

/// Repeats the run of a golden file and compares. Errors: io if the file or its record cannot be
/// read or do not belong together; config if it is of another contract version, or its gradients or
/// text have changed.
GoldenCheck check_golden(const std::string& file);

/// Computes the file again from its own settings, with this program and contract, and adds the
/// reason to its history. Errors: as check_golden, except for the contract version.
GoldenRecord update_golden(const std::string& file, const std::string& reason);

}  // namespace zeroproof::verification
