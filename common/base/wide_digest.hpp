#pragma once
// What digest.cpp is made of where a processor has wider vectors than the programs are compiled for.

#include <cstddef>
#include <cstdint>

namespace zeroproof {

/// High and low half of the XXH3-128 of bytes, by AVX2: the same as without. The processor has it.
void wide_digest(const void* data, std::size_t num_bytes, std::uint64_t halves[2]);

}  // namespace zeroproof
