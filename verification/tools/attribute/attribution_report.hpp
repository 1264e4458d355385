#pragma once
// An attribution as text and as JSON (attribution.schema.json).

#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "verification/tools/attribute/attribution.hpp"

namespace zeroproof::verification {

/// Both recordings of one rank, and the attribution.
struct RankAttribution {
  OperationsFile before, after;
  Attribution found;
};

/// Both recordings of a program, rank by rank. Errors (ErrorCode::io, ErrorCode::config): as read_operations and
/// attribute; other numbers of ranks; a file of another rank.
std::vector<RankAttribution> attribute_files(const std::string& before, const std::string& after);

/// The rank whose first difference has its origin there and not in a collective, and is the earliest.
const RankAttribution& first_of(const std::vector<RankAttribution>& ranks);

/// Text for a terminal; its last line is Attribution::sentence.
std::string attribution_text(const std::vector<RankAttribution>& ranks);
Json attribution_json(const std::vector<RankAttribution>& ranks);

}  // namespace zeroproof::verification
