#pragma once
// Comparisons of tensors as text and as JSON.

#include <string>

#include "common/io/json.hpp"
#include "verification/compare/tensors/set_comparison.hpp"

namespace zeroproof::verification {

/// Limit of rows for differing tensors in the text unless all are requested.
inline constexpr std::size_t most_tensor_rows = 20;

/// A table of the differing tensors (all_rows: of all, equal ones too, each with its distances) and
/// of their sum, at most 100 columns wide. first, second: names of the two sides.
std::string set_table(const SetComparison& comparison, const std::string& first,
                      const std::string& second, bool all_rows);

/// "99.97 %": rounded down, so that only equality of all elements is 100 %.
std::string share(std::int64_t part, std::int64_t whole);

/// "524" or, for distances of many digits, "1.2e+15".
std::string shown_ulps(std::uint64_t distance);

/// All values of one tensor or of a sum: equal_bits, ulps with histogram, absolute, relative.
/// Non-finite values are texts: "nan", "inf".
Json to_json_value(const TensorDifference& tensor);
Json to_json_value(const TensorTotals& totals);

}  // namespace zeroproof::verification
