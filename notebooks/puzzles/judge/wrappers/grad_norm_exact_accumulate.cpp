// grad_norm_exact_accumulate as a C function: 21 limbs and the two counts are 23 words.

#include <algorithm>

#include "wrapper.hpp"

extern "C" std::int32_t puzzle_call(const float* grad, std::int64_t numel, std::uint64_t* words,
                                    char* message, std::size_t size) {
  using namespace zeroproof;
  NormLimbs limbs;
  std::copy_n(words, limbs.limbs.size(), limbs.limbs.begin());
  limbs.nan_count = words[21];
  limbs.inf_count = words[22];
  const auto call = [&] {
    mine::grad_norm_exact_accumulate({}, {grad, static_cast<std::size_t>(numel)}, limbs);
    std::copy_n(limbs.limbs.begin(), limbs.limbs.size(), words);
    words[21] = limbs.nan_count;
    words[22] = limbs.inf_count;
  };
  return wrapper::outcome_of(call, message, size);
}
