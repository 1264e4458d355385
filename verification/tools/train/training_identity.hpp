#pragma once
// The identity of a training: everything that the bits of a trajectory depend on, and nothing about
// where it runs.

#include <string>

#include "common/io/json.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// For "about" in a checkpoint's manifest and for the first line of a log: workload, recipe, dtype,
/// settings (TOML, without the place of the run), digest of the text; in addition the path of the
/// text or of the recorded gradients, and "place", the case's id. gradients: "" for a built-in
/// workload.
Json training_identity(const Experiment& experiment, const CaseSpec& spec,
                       const std::string& gradients);

/// 32 hexadecimal digits, the same for the same training, and for no other.
std::string training_digest(const Json& identity);

/// Errors (ErrorCode::config): `saved`, named `label` in messages, is another training than `mine`;
/// the message names the first setting that differs. damaged: the description is incomplete.
void require_same_training(const Json& saved, const Json& mine, const std::string& label);

}  // namespace zeroproof::verification
