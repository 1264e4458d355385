#pragma once
// Settings as TOML, the inverse of config.hpp.

#include <string>

#include "verification/cases/config/config.hpp"

namespace zeroproof {

/// Every setting as TOML; applied to any configuration it results in this one. Errors
/// (ErrorCode::config): a seed that TOML cannot hold.
std::string to_toml(const RunConfig& config);

/// The same without the table offload, and without scaling unless a dtype has scales. This text
/// identifies a training, and stays the same for trainings made before these tables existed.
std::string to_toml_without_offload(const RunConfig& config);

}  // namespace zeroproof
