#include "cuda/host/base/isa.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::array<Isa, 3> all_isas = {Isa::x86_64, Isa::x86_64_v3, Isa::x86_64_v4};

Isa choose() {
  const char* forced = std::getenv("ZP_ISA");
  if (forced == nullptr || *forced == '\0') return supported_isas().back();
  for (const Isa isa : all_isas) {
    if (name(isa) != forced) continue;
    ZP_CHECK(isa_supported(isa), ErrorCode::unavailable,
             "this processor does not support " + std::string(forced), "ZP_ISA requests it",
             "unset ZP_ISA or name a smaller instruction set");
    return isa;
  }
  fail(ErrorCode::invalid_argument, "ZP_ISA is '" + std::string(forced) + "'",
       "it forces the instruction set of the host kernels", "use x86-64, x86-64-v3 or x86-64-v4");
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::best:
      return "best";
    case Isa::x86_64:
      return "x86-64";
    case Isa::x86_64_v3:
      return "x86-64-v3";
    case Isa::x86_64_v4:
      return "x86-64-v4";
  }
  return "?";
}

bool isa_supported(Isa isa) {
#if defined(ZP_ISA_VARIANTS)
  // Only features that the compiler can use at these levels are queried; __builtin_cpu_supports of
  // g++ 11 does not accept the names of the levels.
  if (isa == Isa::x86_64_v4) {
    return isa_supported(Isa::x86_64_v3) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  if (isa == Isa::x86_64_v3) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports(
               "fma");  // every processor with AVX2 and FMA has F16C, LZCNT and MOVBE
  }
#endif
  return isa == Isa::x86_64 || isa == Isa::best;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : all_isas) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

Isa best_isa() {
  static const Isa chosen = choose();
  return chosen;
}

}  // namespace zeroproof::cuda::host
