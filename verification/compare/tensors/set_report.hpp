#pragma once
// Comparisons of tensors for people and for programs.

#include <string>

#include "common/io/json.hpp"
#include "verification/compare/tensors/set_comparison.hpp"

namespace zeroproof::verification {

/// How many rows of tensors that differ a text has, if not all are asked for.
inline constexpr std::size_t most_tensor_rows = 20;

/// A table of the tensors that differ (all_rows: of all of them, equal ones too, with the distances of each) and of
/// their sum, at most 100 columns wide. first, second: what the two sides are called.
std::string set_table(const SetComparison& comparison, const std::string& first,
                      const std::string& second, bool all_rows);

/// "99.97 %": rounded down, so that only all elements are 100.
std::string share(std::int64_t part, std::int64_t whole);

/// "524" or, for distances of many digits, "1.2e+15".
std::string shown_ulps(std::uint64_t distance);

/// Everything of one tensor and of a sum: equal_bits, ulps with its histogram, absolute, relative. What is not finite
/// is a text: "nan", "inf".
Json to_json_value(const TensorDifference& tensor);
Json to_json_value(const TensorTotals& totals);

}  // namespace zeroproof::verification
