#pragma once
// Memory rates of this machine: loops with the access shapes of the operations and next to no
// arithmetic. limit_loops.cpp is compiled once per instruction set. Only plain data here: an inline
// function compiled for AVX-512 and merged by the linker into baseline code would crash older
// machines.

#include <cstdint>
#include <string>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof::verification::bench {

/// Arrays of one loop; those that its shape does not touch may be null.
struct LimitBuffers {
  const float* grad = nullptr;
  const std::uint16_t* grad16 = nullptr;  ///< for shapes that begin with "R2" and have a gradient
  float* work = nullptr;
  float* state[4] = {};  ///< master and moments
  std::uint16_t* half = nullptr;
  std::uint8_t* byte = nullptr;
};

/// Loops that write in place compute x ^= (y & mask). The mask is 0, unknown to the compiler: the
/// buffers keep their bits, so that a limit is measured on the buffers of its operation.
struct LimitLoop {
  const char*
      shape;      ///< "4R3W+W2": reads four arrays of fp32, writes three, and one of 16-bit words
  bool streamed;  ///< stores past the caches: targets are 64-byte aligned, numel a multiple of 1024
  bool narrow;    ///< reads grad16 instead of grad
  double num_bytes;  ///< per element
  std::uint32_t (*run)(const LimitBuffers& buffers, std::uint32_t mask, std::int64_t begin,
                       std::int64_t numel);

  void operator()(const LimitBuffers& buffers, std::int64_t begin, std::int64_t end) const;
};

/// All loops of an instruction set, which must be supported here and must not be Isa::best.
Span<const LimitLoop> limit_loops(Isa isa);

/// `count` fp32 multiplications with an addition on one thread, fused where the best instruction set can, in as many
/// independent chains as hide their latency: nothing is read or written.
void multiply_and_add(std::int64_t count);

/// One loop of the best instruction set. The shape must exist.
const LimitLoop& limit_loop(const std::string& shape, bool streamed = false);

}  // namespace zeroproof::verification::bench
