#pragma once
// What the memory of this machine can do: loops with the access shapes of the twins and next to no
// arithmetic. limit_loops.cpp is compiled once per instruction set. Only plain pointers here: an inline
// function compiled for AVX-512 and merged by the linker into baseline code would crash older machines.

#include <cstdint>

#include "common/base/exec.hpp"

namespace zeroproof::verification::bench {

/// Every loop that writes in place computes x ^= (y & mask). The caller passes mask = 0, which the compiler
/// cannot know: the buffers keep their bits, so a limit can be measured on the very buffers of the twin it
/// belongs to. "streamed" stores go past the caches; their targets must be 64-byte aligned, and numel a
/// multiple of 1024.
struct LimitLoops {
  std::uint32_t (*read)(const float* a, std::int64_t numel);                                           // 4 B
  void (*in_place)(std::uint32_t mask, float* a, std::int64_t numel);                                  // 8 B
  void (*add)(std::uint32_t mask, float* a, const float* b, std::int64_t numel);                       // 12 B
  void (*narrow)(const float* a, std::uint16_t* half, std::int64_t numel);                             // 6 B
  void (*narrow_streamed)(const float* a, std::uint16_t* half, std::int64_t numel);                    // 6 B
  void (*narrow8)(const float* a, std::uint8_t* byte, std::int64_t numel);                             // 5 B
  void (*narrow8_streamed)(const float* a, std::uint8_t* byte, std::int64_t numel);                    // 5 B
  void (*widen8)(const std::uint8_t* byte, float* a, std::int64_t numel);                              // 5 B
  void (*widen8_streamed)(const std::uint8_t* byte, float* a, std::int64_t numel);                     // 5 B
  void (*widen16)(const std::uint16_t* half, float* a, std::int64_t numel);                            // 6 B
  void (*widen16_streamed)(const std::uint16_t* half, float* a, std::int64_t numel);                   // 6 B
  void (*momentum)(std::uint32_t mask, const float* g, float* p, float* m, std::int64_t numel);        // 20 B
  void (*adam)(std::uint32_t mask, const float* g, float* p, float* m, float* v, std::int64_t numel);  // 28 B
  void (*amsgrad)(std::uint32_t mask, const float* g, float* p, float* m, float* v, float* x,
                  std::int64_t numel);  // 36 B
  void (*step)(std::uint32_t mask, const float* g, float* p, float* m, float* v, std::uint16_t* half,
               std::int64_t numel);  // 30 B
  void (*step_streamed)(std::uint32_t mask, const float* g, float* p, float* m, float* v, std::uint16_t* half,
                        std::int64_t numel);  // 30 B
  /// The same with a gradient of 16-bit words.
  std::uint32_t (*read16)(const std::uint16_t* g, std::int64_t numel);                      // 2 B
  void (*add16)(std::uint32_t mask, float* a, const std::uint16_t* g, std::int64_t numel);  // 10 B
  void (*step16)(std::uint32_t mask, const std::uint16_t* g, float* p, float* m, float* v,
                 std::uint16_t* half,
                 std::int64_t numel);  // 28 B
  void (*step16_streamed)(std::uint32_t mask, const std::uint16_t* g, float* p, float* m, float* v,
                          std::uint16_t* half, std::int64_t numel);  // 28 B
  /// Not a limit: the finite check of the seven passes. Returns non-zero if a value is NaN or infinite.
  std::uint32_t (*not_finite)(const float* a, std::int64_t numel);
};

/// The table of one instruction set, which must be supported here and must not be Isa::best.
const LimitLoops& limit_loops(Isa isa);

}  // namespace zeroproof::verification::bench
