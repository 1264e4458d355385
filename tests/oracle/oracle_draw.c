/* Random words (R15) and the rounding that uses them (R8).

   Philox4x32-10 as the paper defines it (Salmon, Moraes, Dror, Shaw, SC'11): two multiplications per round,
   whose upper halves are mixed with the other two words and the key, and a key that grows by two constants,
   the golden ratio and sqrt(3) - 1. tests/verification/ops/oracle_test.cpp has the published answers. */

#include <string.h>

#include "oracle.h"

void oracle_philox(const uint32_t* counter, const uint32_t* key, uint32_t* block) {
  uint32_t x[4], k[2];
  int round;
  memcpy(x, counter, sizeof x);
  memcpy(k, key, sizeof k);
  for (round = 0; round < 10; ++round) {
    const uint64_t first = (uint64_t)0xD2511F53U * x[0];
    const uint64_t second = (uint64_t)0xCD9E8D57U * x[2];
    x[0] = (uint32_t)(second / 4294967296U) ^ x[1] ^ k[0];
    x[2] = (uint32_t)(first / 4294967296U) ^ x[3] ^ k[1];
    x[1] = (uint32_t)(second % 4294967296U);
    x[3] = (uint32_t)(first % 4294967296U);
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  memcpy(block, x, sizeof x);
}

uint32_t oracle_random_word(uint64_t seed, uint32_t stream, uint64_t t, uint64_t index) {
  uint32_t counter[4], key[2], block[4];
  counter[0] = (uint32_t)(index / 4 % 4294967296U);
  counter[1] = (uint32_t)(index / 4 / 4294967296U);
  counter[2] = (uint32_t)(t % 4294967296U);
  counter[3] = stream;
  key[0] = (uint32_t)(seed % 4294967296U);
  key[1] = (uint32_t)(seed / 4294967296U);
  oracle_philox(counter, key, block);
  return block[index % 4];
}

uint16_t oracle_round_with(float value, uint32_t word) {
  uint32_t bits;
  if (value != value) return 0x7FFF; /* R9 */
  memcpy(&bits, &value, sizeof bits);
  bits += word / 65536U;
  return (uint16_t)(bits / 65536U);
}

void oracle_cast_stochastic(uint64_t seed, uint64_t t, uint64_t first_index, const float* source,
                            uint16_t* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i)
    target[i] =
        oracle_round_with(source[i], oracle_random_word(seed, 0x53520001U, t, first_index + i));
}
