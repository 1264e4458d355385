#pragma once
// Numbers for tests, and their bits.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "common/base/philox.hpp"

namespace zeroproof::tests {

inline constexpr float inf32 = std::numeric_limits<float>::infinity();
inline constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();
inline constexpr double inf64 = std::numeric_limits<double>::infinity();
inline constexpr double nan64 = std::numeric_limits<double>::quiet_NaN();

/// Bits of a value: all NaNs are one value (R9).
inline std::uint32_t bits(float value) {
  return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
}
inline std::uint64_t bits(double value) {
  return std::isnan(value) ? 0x7FFFFFFFFFFFFFFFU : std::bit_cast<std::uint64_t>(value);
}

inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  result.reserve(values.size());
  for (const float value : values) result.push_back(bits(value));
  return result;
}

/// Values of both signs between 2^-spread and 2^spread: their sum depends on the order of the additions.
inline std::vector<float> random_values(std::int64_t numel, std::uint64_t seed, int spread = 12) {
  const Philox philox(seed);
  std::vector<float> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(numel); ++i) {
    const int exponent =
        static_cast<int>(philox.below(3 * i, 2 * static_cast<std::uint64_t>(spread))) - spread;
    const float magnitude = std::ldexp(1.0F + philox.uniform(3 * i + 1), exponent);
    values.push_back((philox.word(3 * i + 2) & 1U) != 0 ? -magnitude : magnitude);
  }
  return values;
}

/// random_values, computed once for all ranks and cases of a test.
inline const std::vector<float>& shared_random_values(std::int64_t numel, std::uint64_t seed,
                                                      int spread) {
  static std::mutex mutex;
  static std::map<std::tuple<std::int64_t, std::uint64_t, int>, std::vector<float>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [entry, is_new] = known.try_emplace({numel, seed, spread});
  // A separate flag: the number of values may be 0, and other ranks read them at the same time.
  if (is_new) entry->second = random_values(numel, seed, spread);
  return entry->second;
}

}  // namespace zeroproof::tests
