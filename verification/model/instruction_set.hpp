#pragma once
// One source, compiled for several instruction sets and selected at run time. All of them give the
// same bits (R17): vectors run across independent results, contraction is off, and no result is
// split over lanes.

#include <string_view>
#include <type_traits>
#include <vector>

namespace zeroproof::workload {

enum class InstructionSet { baseline, avx2, avx512 };

/// The widest instruction set that this processor and operating system support.
InstructionSet best_instruction_set();

/// All supported instruction sets, baseline first. For tests: the bits must agree.
std::vector<InstructionSet> usable_instruction_sets();

std::string_view name(InstructionSet set);

/// Bytes of one vector register as a type, so that code can size its tiles with it.
template <int bytes>
using VectorBytes = std::integral_constant<int, bytes>;

/// For a lambda passed to run_on(): its code must be compiled as part of the function that inlines
/// it.
#define ZP_INLINE_BODY __attribute__((always_inline))

#if defined(__x86_64__)
// The feature lists are explicit because "avx2" alone does not include fused multiply-add.
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
