#pragma once
// What makes two runs one training: everything that the bits of a trajectory depend on, and nothing of where it runs.

#include <string>

#include "common/io/json.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// For "about" in a checkpoint's manifest and for the first line of a log: workload, recipe, dtype, settings (TOML,
/// with nothing of where it ran), digest of the text; and apart from it, where the text or the recorded gradients are,
/// and
/// "place", the case's id.
/// gradients: "" for a workload of ours.
Json training_identity(const Experiment& experiment, const CaseSpec& spec,
                       const std::string& gradients);

/// 32 hexadecimal digits, the same for the same training, and for no other.
std::string training_digest(const Json& identity);

/// Errors (ErrorCode::config): `saved`, which `label` says of itself, is another training than `mine`; the first
/// setting that differs is named. damaged: it does not say what it is.
void require_same_training(const Json& saved, const Json& mine, const std::string& label);

}  // namespace zeroproof::verification
