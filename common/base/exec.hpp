#pragma once
// Execution settings of an operation. The bits of a result never depend on them.

#include <cstdint>

namespace zeroproof {

/// Instruction sets the host implementations are compiled for; `best` is resolved at run time from the processor.
enum class Isa : std::uint8_t { best, x86_64, x86_64_v3, x86_64_v4 };

struct Exec {
  int num_threads = 1;  ///< worker threads of the host implementations, >= 1
  Isa isa = Isa::best;  ///< forced instruction set (tests), or the best this machine has
};

}  // namespace zeroproof
