#pragma once
// Tables of values with their bits, at most 100 columns wide.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.hpp"

namespace zeroproof::verification {

inline constexpr std::size_t trace_columns = 100;

/// "0x3f800000 1": the bits in the width of the dtype, and the value with enough digits to identify
/// it.
std::string shown_value(std::uint64_t bits, DType dtype);

struct TraceColumn {
  std::string title;
  std::vector<std::string> cells;  // one per row
};

/// Rows with their labels; columns beyond the width continue in further blocks with the labels
/// repeated.
std::string table(const TraceColumn& labels, const std::vector<TraceColumn>& columns);

/// "rank 1", "ranks 0-3", "ranks 0, 2".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace zeroproof::verification
