#include <cstring>

#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

template <class T>
bool same_bits(const HugeBuffer<T>& a, const HugeBuffer<T>& b) {
  const std::size_t bytes = a.num_bytes() < b.num_bytes() ? a.num_bytes() : b.num_bytes();
  return std::memcmp(a.data(), b.data(), bytes) == 0;
}

/// Up to the end of the shorter one.
bool same_bits(const State& a, const State& b) {
  return same_bits(a.master, b.master) && same_bits(a.exp_avg, b.exp_avg) &&
         same_bits(a.exp_avg_sq, b.exp_avg_sq);
}

}  // namespace

std::vector<Check> check_bits(const Data& data, const StepResults& results) {
  const bool norms =
      results.fused_norm == results.seven_norm && results.fused_norm > 0 && !results.norm_changed;
  return {{"adamw, all threads = reference, on the first eighth", same_bits(data.threads, data.reference)},
          {"adamw, 1 thread = reference, on the first eighth", same_bits(data.serial, data.reference)},
          {"fused = seven passes: master, exp_avg, exp_avg_sq", same_bits(data.fused, data.seven)},
          {"fused = seven passes: bf16 parameters", same_bits(data.fused_param, data.seven_param)},
          {"fused = seven passes: norm, in every round", norms},
          {"no overflow reported for finite gradients", !results.found_inf}};
}

}  // namespace zeroproof::verification::bench
