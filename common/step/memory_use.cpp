#include "common/step/memory_use.hpp"

namespace zeroproof {

std::string_view name(MemoryClass kind) {
  constexpr std::array<std::string_view, num_memory_classes> names = {
      "master", "state",      "param_shard", "param_full",
      "grad",   "grad_nodes", "grad_sum",    "comm_buffer"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace zeroproof
