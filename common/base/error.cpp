#include "common/base/error.hpp"

#include "common/base/printable.hpp"

namespace zeroproof {

/// sentence() escapes and shortens text that comes from files or arguments.
void fail(ErrorCode code, const std::string& problem, const std::string& why,
          const std::string& remedy) {
  const std::string reason = why.empty() ? "" : " (" + why + ")";
  throw Error(code, sentence(problem + reason + "; " + remedy));
}

}  // namespace zeroproof
