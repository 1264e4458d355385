#include "verification/cases/suite.hpp"

#include "verification/cases/id_pattern.hpp"

namespace zeroproof::verification {

bool Suite::means(const std::string& pattern) const { return begins_with(pattern, name()); }

}  // namespace zeroproof::verification
