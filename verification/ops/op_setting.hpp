#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace zeroproof::verification {

/// A named argument of a call besides its buffers. fp32 numbers are widened, which is exact.
struct OpSetting {
  std::string name;  ///< as in common/contracts: "step_size", "maximize"
  std::variant<double, std::int64_t, std::uint64_t> value;
};

}  // namespace zeroproof::verification
