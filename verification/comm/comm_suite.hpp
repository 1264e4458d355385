#pragma once

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Collectives one at a time: "comm/all_gather/threads:3/unequal/scattered".
const Suite& comm_suite();

}  // namespace zeroproof::verification
