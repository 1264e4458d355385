#pragma once
// JSON form of RankBytes.

#include <vector>

#include "common/io/json.hpp"
#include "verification/cases/result.hpp"

namespace zeroproof::verification {

Json to_json_value(const std::vector<RankBytes>& ranks);

/// Errors: JsonError if a field is missing or of another type.
std::vector<RankBytes> rank_bytes_from(const Json& json);

}  // namespace zeroproof::verification
