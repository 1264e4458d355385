#include "verification/model/instruction_set.hpp"

namespace zeroproof::workload {

InstructionSet best_instruction_set() { return usable_instruction_sets().back(); }

std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> sets = {InstructionSet::baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) sets.push_back(InstructionSet::avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    sets.push_back(InstructionSet::avx512);
  }
#endif
  return sets;
}

std::string_view name(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "?";
}

}  // namespace zeroproof::workload
