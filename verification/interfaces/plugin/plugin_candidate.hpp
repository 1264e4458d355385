#pragma once

#include <memory>

#include "verification/interfaces/plugin/plugin.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::verification {

/// A plug-in's operations, judged as "plugin/NAME".
std::shared_ptr<const OpCandidate> plugin_candidate(std::shared_ptr<Plugin> plugin);

}  // namespace zeroproof::verification
