#pragma once
// Settings as TOML, the way back from config.hpp.

#include <string>

#include "verification/cases/config/config.hpp"

namespace zeroproof {

/// Every setting as TOML: applied to any configuration, it gives this one. Errors (ErrorCode::config): a seed that TOML
/// cannot hold.
std::string to_toml(const RunConfig& config);

/// The same without the table offload, and without scaling unless a dtype has scales: what a training was known by
/// before there were these tables, and is still.
std::string to_toml_without_offload(const RunConfig& config);

}  // namespace zeroproof
