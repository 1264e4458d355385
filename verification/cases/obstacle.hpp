#pragma once

#include <string>

#include "verification/cases/case.hpp"

namespace zeroproof::verification {

/// Whether a candidate supports parameters in 8 bits (R24).
bool makes_scales(Implementation implementation);

/// Why a case cannot run on this machine; "" if no reason is found before it runs. other_hosts:
/// ranks that are processes may run on other hosts.
std::string obstacle(const CaseSpec& spec, bool other_hosts);

}  // namespace zeroproof::verification
