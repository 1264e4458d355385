#pragma once
// Every execution setting of a host implementation on this machine.

#include <vector>

#include "cuda/host/base/isa.hpp"

namespace zeroproof::tests {

/// One thread with every instruction set of this machine, and three with the best.
inline std::vector<Exec> every_exec() {
  std::vector<Exec> all;
  for (const Isa isa : cuda::host::supported_isas()) all.push_back({1, isa});
  all.push_back({3, Isa::best});
  return all;
}

}  // namespace zeroproof::tests
