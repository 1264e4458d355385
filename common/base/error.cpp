#include "common/base/error.hpp"

namespace zeroproof {

void fail(ErrorCode code, const std::string& problem, const std::string& why, const std::string& remedy) {
  throw Error(code, problem + " (" + why + "); " + remedy);
}

}  // namespace zeroproof
