#pragma once
// Inputs of the comparison of norms: tensors of odd sizes with several kinds of data, and limbs
// that are not the sum of any data.

#include <cstdint>
#include <vector>

#include "common/base/philox.hpp"
#include "common/contracts/grad_norm.hpp"
#include "oracle_inputs.hpp"

namespace zeroproof::oracle {

inline constexpr std::int64_t tensor_numels[] = {
    0, 1, 31, 33, 1023, 1024, 1025, 2048, 3000, 7777, 65536, 1000, 40961, 0, 5, 150001};

using Tensors = std::vector<std::vector<float>>;

struct DataFamily {
  const char* name;
  float (*value)(std::uint64_t index);
};

inline std::uint32_t random_word(std::uint64_t index, std::uint32_t stream) {
  return Philox(7, stream).word(index);
}

/// The exponent field of random bits moved into [first, first + range).
inline float with_exponent(std::uint64_t index, std::uint32_t first, std::uint32_t range) {
  const std::uint32_t bits = random_word(index, 1);
  const std::uint32_t exponent = first + random_word(index, 2) % range;
  return from_bits((bits & 0x807FFFFFU) | exponent << 23);
}

/// Huge: squares near 2^256, where the sum reaches its highest limbs. Rare values are in one
/// element of 100003, so most pieces have none.
inline const DataFamily data_families[] = {
    {"training", [](std::uint64_t i) { return training_element(i)[0]; }},
    {"wide exponents", [](std::uint64_t i) { return with_exponent(i, 0, 255); }},
    {"medium exponents", [](std::uint64_t i) { return with_exponent(i, 100, 30); }},
    {"subnormal", [](std::uint64_t i) { return with_exponent(i, 0, 1); }},
    {"around subnormal", [](std::uint64_t i) { return with_exponent(i, 0, 24); }},
    {"huge", [](std::uint64_t i) { return with_exponent(i, 253, 2); }},
    {"largest", [](std::uint64_t) { return from_bits(0x7F7FFFFF); }},
    {"smallest", [](std::uint64_t) { return from_bits(0x80000001); }},
    {"zeros", [](std::uint64_t i) { return from_bits(random_word(i, 3) & 0x80000000U); }},
    {"few values",
     [](std::uint64_t i) {
       return random_word(i, 3) % 5000 == 0 ? with_exponent(i, 0, 255) : 0.0F;
     }},
    {"with infinity",
     [](std::uint64_t i) {
       return i % 100003 == 77 ? from_bits(0xFF800000) : training_element(i)[0];
     }},
    {"with NaN",
     [](std::uint64_t i) {
       return i % 100003 == 1030 ? from_bits(0xFFC00001) : training_element(i)[0];
     }},
    {"with NaN and infinity",
     [](std::uint64_t i) {
       if (i % 100003 == 1030) return from_bits(0x7F800001);
       return i % 50001 == 3 ? from_bits(0x7F800000) : training_element(i)[0];
     }},
};

inline Tensors make_tensors(const DataFamily& family) {
  Tensors tensors;
  std::uint64_t index = 0;
  for (std::int64_t numel : tensor_numels) {
    std::vector<float>& tensor = tensors.emplace_back(static_cast<std::size_t>(numel));
    for (float& value : tensor) value = family.value(index++);
  }
  return tensors;
}

/// Limbs that are not a sum of squares: a few bits at any position, among them ties of the 53-bit
/// rounding, and full 64-bit limbs.
inline NormLimbs random_limbs(std::uint64_t index) {
  const Philox philox(13, static_cast<std::uint32_t>(index % 4));
  const auto draw = [&](std::uint64_t k, std::uint64_t bound) {
    return philox.below(64 * index + k, bound);
  };
  NormLimbs limbs;
  const auto set_bit = [&](std::uint64_t bit) {
    limbs.limbs[bit / 32] |= std::uint64_t{1} << bit % 32;
  };
  if (index % 4 == 0) {
    const std::uint64_t first = draw(1, 21);
    const std::uint64_t last = first + draw(2, 21 - first);
    for (std::uint64_t i = first; i <= last; ++i) limbs.limbs[i] = draw(3 + i, UINT64_MAX);
    return limbs;
  }
  const std::uint64_t top = 60 + draw(0, 580);
  set_bit(top);
  for (std::uint64_t k = 1; k <= 52;
       ++k) {  // index % 4 == 3: all ones, so that rounding carries to the next power
    if (index % 4 == 3 || draw(k, 2) == 1) set_bit(top - k);
  }
  if (draw(53, 8) != 0) set_bit(top - 53);
  if (draw(54, 2) == 0) set_bit(draw(55, top - 53));
  return limbs;
}

}  // namespace zeroproof::oracle
