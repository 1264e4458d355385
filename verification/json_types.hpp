#pragma once
// JSON forms of the result types. Only the .cpp files that read or write JSON include this.

#include <nlohmann/json.hpp>

#include "verification/run_report.hpp"
#include "verification/world.hpp"

namespace zeroproof::verification {

using Json = nlohmann::ordered_json;

Json to_json_value(const PhaseTally& tally);
Json to_json_value(const Divergence& divergence);
Json to_json_value(const CaseResult& result);
Json to_json_value(const RankReport& report);

/// Errors: nlohmann::json::exception if a field is missing or of another type.
CaseResult case_result_from(const Json& json);
RankReport rank_report_from(const Json& json);

}  // namespace zeroproof::verification
