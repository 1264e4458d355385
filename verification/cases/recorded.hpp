#pragma once
// The workload "recorded": gradients from a file (verification/model/recorded.hpp) in place of a model's.

#include <string>

#include "verification/cases/config/config.hpp"
#include "verification/model/text.hpp"

namespace zeroproof::verification {

inline constexpr const char* recorded_workload = "recorded";

/// The settings in the recording; without any those of the main job, but with a hysteresis of 1.
/// Steps and micro-batches are those recorded. Errors: ErrorCode::config if `path` is empty or no
/// recording, or its settings cannot be read; ErrorCode::io if it cannot be read.
RunConfig recorded_defaults(const std::string& path);

/// Errors (ErrorCode::config): a run with these settings cannot be repeated from its gradients.
void check_recordable(const RunConfig& config);

/// Errors (ErrorCode::config): the settings have more steps than the recording, or another number
/// of micro-batches.
void check_recorded(const RunConfig& config, const std::string& path);

/// Replaces the text of other workloads: no bytes, but the path of the recording.
inline constexpr const char* recorded_text_kind = "gradients";
inline workload::Text recorded_text(const std::string& path) {
  return {recorded_text_kind, path, {}};
}

}  // namespace zeroproof::verification
