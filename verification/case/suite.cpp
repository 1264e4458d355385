#include "verification/case/suite.hpp"

#include "verification/case/id_pattern.hpp"

namespace zeroproof::verification {

bool Suite::means(const std::string& pattern) const { return begins_with(pattern, name()); }

}  // namespace zeroproof::verification
