#include "common/base/error.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {

std::uint32_t refused(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    return 1;
  }
  return 0;
}

}  // namespace zeroproof::verification
