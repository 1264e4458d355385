#pragma once

#include <string>

namespace zeroproof {

/// The name of the machine this process runs on, as the operating system returns it.
std::string local_host();

}  // namespace zeroproof
