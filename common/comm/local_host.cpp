#include "common/comm/local_host.hpp"

#include <unistd.h>

#include <array>

namespace zeroproof {

std::string local_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

}  // namespace zeroproof
