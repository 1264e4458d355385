#pragma once
// Philox4x32-10 for kernels (R15). Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC'11): multipliers 0xD2511F53 and 0xCD9E8D57, key increments 0x9E3779B9 and 0xBB67AE85.

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

struct PhiloxWords {
  std::uint32_t w[4];
};

/// The random words of elements [4 block, 4 block + 4).
ZP_HOST_DEVICE inline PhiloxWords philox_words(std::uint64_t seed, std::uint32_t stream,
                                               std::uint32_t t, std::uint64_t block) {
  PhiloxWords c{
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), t, stream}};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * c.w[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * c.w[2];
    c = {{static_cast<std::uint32_t>(product1 >> 32) ^ c.w[1] ^ key0,
          static_cast<std::uint32_t>(product1),
          static_cast<std::uint32_t>(product0 >> 32) ^ c.w[3] ^ key1,
          static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

/// Word n of four, without an address: an array with a variable index would be stored in local
/// memory.
ZP_HOST_DEVICE inline std::uint32_t select_word(std::uint32_t n, std::uint32_t w0, std::uint32_t w1,
                                                std::uint32_t w2, std::uint32_t w3) {
  const std::uint32_t low = (n & 1U) != 0U ? w1 : w0;
  const std::uint32_t high = (n & 1U) != 0U ? w3 : w2;
  return (n & 2U) != 0U ? high : low;
}

}  // namespace zeroproof::cuda::device
