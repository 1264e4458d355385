#include "common/base/philox.hpp"

namespace zeroproof {
namespace {

__extension__ using unsigned_int128 =
    unsigned __int128;  // not ISO C++, so -Wpedantic requires the mark

constexpr std::uint64_t multiplier0 = 0xD2511F53;
constexpr std::uint64_t multiplier1 = 0xCD9E8D57;
constexpr std::uint32_t weyl0 = 0x9E3779B9;
constexpr std::uint32_t weyl1 = 0xBB67AE85;

}  // namespace

PhiloxBlock philox4x32(const PhiloxBlock& counter, std::uint64_t key) {
  PhiloxBlock x = counter;
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = multiplier0 * x[0];
    const std::uint64_t p1 = multiplier1 * x[2];
    x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += weyl0;
    k1 += weyl1;
  }
  return x;
}

std::uint32_t Philox::word(std::uint64_t index) const {
  const std::uint64_t block = index / 4;
  return philox4x32(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), t_, stream_},
      seed_)[index % 4];
}

std::uint64_t Philox::below(std::uint64_t index, std::uint64_t bound) const {
  const std::uint64_t random = std::uint64_t{word(2 * index)} << 32 | word(2 * index + 1);
  return static_cast<std::uint64_t>(static_cast<unsigned_int128>(random) * bound >> 64);
}

float Philox::bell(std::uint64_t index) const {
  float sum = 0;
  for (std::uint64_t i = 0; i < 4; ++i) sum += uniform(4 * index + i);
  constexpr float sqrt3 = 1.7320508F;  // the variance of the sum of four uniforms is 4 / 12
  return (sum - 2.0F) * sqrt3;
}

}  // namespace zeroproof
