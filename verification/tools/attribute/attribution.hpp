#pragma once
// The first operation of a program whose bits changed between two recordings, and the cause.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "verification/tools/attribute/alignment.hpp"
#include "verification/tools/attribute/environment_difference.hpp"

namespace zeroproof::verification {

enum class AttributionVerdict : std::uint8_t {
  equal,       ///< the same operations with the same bits
  drift,       ///< other bits, explained by libraries, machine or settings
  regression,  ///< other bits, which these do not explain
  inputs       ///< other data, seeds or initial values
};
std::string_view name(AttributionVerdict verdict);

/// Kind of the first difference.
enum class OriginKind : std::uint8_t {
  none,
  kernel,      ///< an operation computes other bits from the same inputs
  replaced,    ///< operations of one side alone
  argument,    ///< an option, a number, a dtype or a layout
  random,      ///< the state of the random generator
  outside,     ///< data or parameters that no recorded operation wrote
  memory,      ///< memory changed outside of the recorded operations
  wiring,      ///< an operation reads the result of another one
  collective,  ///< the result of a collective
  length       ///< one recording goes on where the other ends
};
std::string_view name(OriginKind kind);

/// Rows of an alignment by their bits.
struct RowCounts {
  std::int64_t agree = 0;    ///< outputs have the same bits
  std::int64_t views = 0;    ///< nothing is computed, or nothing can be compared
  std::int64_t own = 0;      ///< other bits from the same inputs
  std::int64_t inherit = 0;  ///< other inputs
  std::int64_t only_old = 0, only_new = 0;
};

struct Origin {
  OriginKind kind = OriginKind::none;
  /// Of the first difference; of replaced operations, the first of each side.
  std::optional<std::size_t> before, after;
  std::vector<std::size_t> removed, inserted;  ///< of OriginKind::replaced
  std::string what;                            ///< "argument lr: 0.001 -> 0.002"
};

struct Attribution {
  AttributionVerdict verdict = AttributionVerdict::equal;
  Origin origin;
  std::string cause;   ///< "threads 2 -> 1"; "" if equal
  std::string remark;  ///< condition of the verdict; may be empty
  std::vector<EnvironmentDifference> differences;
  RowCounts counts;
  std::vector<std::pair<std::string, std::int64_t>>
      others;  ///< later rows with other bits from the same inputs

  /// "drift, explained by threads 2 -> 1".
  std::string sentence() const;
};

/// Compares two recordings of one rank. Errors (ErrorCode::config): less than half of the operations of the shorter
/// recording have a counterpart: another program or model.
Attribution attribute(const OperationsFile& before, const OperationsFile& after);

/// "aten.addmm.default" -> "aten.addmm".
std::string short_name(const std::string& operation);

}  // namespace zeroproof::verification
