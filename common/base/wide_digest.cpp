// The only file of this library that is compiled for AVX2: it must define no function with external
// linkage that other files define too (inline functions), or the linker could keep the AVX2 version
// for processors without AVX2.
#include "common/base/wide_digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zeroproof {

void wide_digest(const void* data, std::size_t num_bytes, std::uint64_t halves[2]) {
  const XXH128_hash_t hash = XXH3_128bits(data, num_bytes);
  halves[0] = hash.high64;
  halves[1] = hash.low64;
}

}  // namespace zeroproof
