#pragma once
// JSON forms of the result types.

#include "common/io/json.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// JSON has no NaN and no infinity: null.
Json number_or_null(double value);

Json to_json_value(const PhaseTally& tally);
Json to_json_value(const Divergence& divergence);
Json to_json_value(const Result& result);
Json to_json_value(const RankReport& report);

/// Errors: JsonError if a field is missing or of another type.
Result result_from(const Json& json);
RankReport rank_report_from(const Json& json);

}  // namespace zeroproof::verification
