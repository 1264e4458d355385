#pragma once
// A user's library in the process that holds it: its description, read up to its struct_size.

#include <cstdint>
#include <string>

#include "verification/interfaces/capi/zeroproof_plugin.h"
#include "verification/interfaces/plugin/wire.hpp"

namespace zeroproof::verification {

/// Loads a library, and fills `hello` with its content. nullptr if `hello` has a problem.
const zeroproof_plugin* load_library(const char* path, PluginHello& hello);

/// The entry of an operation, or of whole steps; nullptr if there is none.
zeroproof_function function_of(const zeroproof_plugin& plugin, const std::string& operation);

/// nullptr if the library was built before the field existed, or leaves it empty.
zeroproof_supports supports_of(const zeroproof_plugin& plugin);

/// Memory of its operands; 0 for the host.
std::int32_t device_type_of(const zeroproof_plugin& plugin);

}  // namespace zeroproof::verification
