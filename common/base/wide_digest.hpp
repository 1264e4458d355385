#pragma once
// AVX2 part of digest.cpp, for processors with wider vectors than the baseline of the build.

#include <cstddef>
#include <cstdint>

namespace zeroproof {

/// High and low half of the XXH3-128 of bytes, computed with AVX2: the same as without. Requires
/// AVX2.
void wide_digest(const void* data, std::size_t num_bytes, std::uint64_t halves[2]);

}  // namespace zeroproof
