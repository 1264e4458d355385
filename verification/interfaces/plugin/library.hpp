#pragma once
// A library of somebody else in the process that holds it: its description, read as far as it reaches.

#include <cstdint>
#include <string>

#include "verification/interfaces/capi/zeroproof_plugin.h"
#include "verification/interfaces/plugin/wire.hpp"

namespace zeroproof::verification {

/// Loads a library, and tells what it has. nullptr if `hello` has a problem.
const zeroproof_plugin* load_library(const char* path, PluginHello& hello);

/// The entry of an operation, or of whole steps; nullptr if there is none.
zeroproof_function function_of(const zeroproof_plugin& plugin, const std::string& operation);

/// nullptr if the library was built before there was such a field, or leaves it out.
zeroproof_supports supports_of(const zeroproof_plugin& plugin);

/// Where it wants its operands; 0 for the host.
std::int32_t device_type_of(const zeroproof_plugin& plugin);

}  // namespace zeroproof::verification
