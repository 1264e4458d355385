#pragma once
// The operations a user's library can have: those whose operands and settings describe a call
// completely.

#include <string>
#include <vector>

namespace zeroproof::verification {

/// In the order of the phases.
const std::vector<std::string>& plugin_operations();

/// True if it is one of them.
bool is_plugin_operation(const std::string& name);

}  // namespace zeroproof::verification
