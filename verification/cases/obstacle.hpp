#pragma once

#include <string>

#include "verification/cases/case.hpp"

namespace zeroproof::verification {

/// Whether a candidate makes parameters in 8 bits (R24).
bool makes_scales(Implementation implementation);

/// Why a case cannot run on this machine; "" if it can, as far as can be told before it runs. other_hosts: ranks that
/// are processes may be elsewhere.
std::string obstacle(const CaseSpec& spec, bool other_hosts);

}  // namespace zeroproof::verification
