#pragma once
// Sensitivity of the comparison of one case: the planted faults that it must catch, and does.

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::verification {

struct Sensitivity {
  std::int64_t faults = 0;          ///< that the case can have (blind_faults.hpp)
  std::vector<std::string> missed;  ///< those that were not caught

  std::int64_t caught() const { return faults - static_cast<std::int64_t>(missed.size()); }
};

}  // namespace zeroproof::verification
