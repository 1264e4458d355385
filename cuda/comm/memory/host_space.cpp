#include <cstring>

#include "cuda/comm/memory/memory_space.hpp"

namespace zeroproof::cuda {
namespace {

// Null pointers occur with 0 bytes, and memcpy does not allow them.
void copy_here(void* to, const void* from, std::int64_t num_bytes) {
  if (num_bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(num_bytes));
}

}  // namespace

const MemorySpace& host_space() {
  static constexpr MemorySpace space = [] {
    MemorySpace host;
    host.fill = [](void* data, unsigned char byte, std::int64_t num_bytes) {
      if (num_bytes > 0) std::memset(data, byte, static_cast<std::size_t>(num_bytes));
    };
    host.copy = copy_here;
    host.copy_many = [](Span<const Move> moves) {
      for (const Move& move : moves) copy_here(move.to, move.from, move.num_bytes);
    };
    host.from_host = copy_here;
    host.to_host = copy_here;
    host.wait = [] {};
    return host;
  }();
  return space;
}

}  // namespace zeroproof::cuda
