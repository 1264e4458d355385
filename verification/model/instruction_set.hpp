#pragma once
// One source, compiled for several instruction sets and chosen at run time. All of them give the same bits
// (R17): vectors run across independent results, contraction is off, and no result is ever split over lanes.

#include <string_view>
#include <type_traits>
#include <vector>

namespace zeroproof::workload {

enum class InstructionSet { baseline, avx2, avx512 };

/// The widest one that this processor and operating system can run.
InstructionSet best_instruction_set();

/// Every one this machine can run, baseline first. For tests: the bits must agree.
std::vector<InstructionSet> usable_instruction_sets();

std::string_view name(InstructionSet set);

/// Bytes of one vector register, as a type, so that a body can size its tiles with it.
template <int bytes>
using VectorBytes = std::integral_constant<int, bytes>;

/// For a lambda handed to run_on(): its code must be compiled as part of the function that inlines it.
#define ZP_INLINE_BODY __attribute__((always_inline))

#if defined(__x86_64__)
// The feature lists are spelled out because "avx2" alone leaves fused multiply-add out of reach.
template <class Body>
__attribute__((target("avx2"))) void run_avx2(const Body& body) {
  body(VectorBytes<32>{});
}

template <class Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void run_avx512(const Body& body) {
  body(VectorBytes<64>{});
}
#endif

/// Calls body(VectorBytes<...>) in code generated for `set`, which must be usable here.
template <class Body>
void run_on(InstructionSet set, const Body& body) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return run_avx512(body);
  if (set == InstructionSet::avx2) return run_avx2(body);
#endif
  static_cast<void>(set);
  body(VectorBytes<16>{});
}

}  // namespace zeroproof::workload
