// The first fused pass of the host implementations: found_inf and every form of the norm from
// grad_sum, without a stored unscaled gradient. Very long gradients also need limbs to be
// normalised during the pass.

#include <doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cuda/host/fused_step.hpp"
#include "oracle.h"
#include "oracle_implementations.hpp"
#include "oracle_limbs.hpp"
#include "oracle_norm_cases.hpp"

namespace norm_fused_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

struct Expected {
  bool found;
  NormLimbs chunks, exact, one;
  std::uint32_t amax;
};

Expected expect(float inv_scale, const std::vector<float>& grad_sum) {
  std::vector<float> unscaled(grad_sum.size());
  Expected e{};
  e.found = oracle_unscale(inv_scale, grad_sum.data(), unscaled.data(), unscaled.size()) != 0;
  oracle_sum chunks;
  oracle_exact exact, one;
  oracle_norm_clear(&chunks);
  oracle_exact_clear(&exact);
  oracle_exact_clear(&one);
  oracle_norm_add(&chunks, unscaled.data(), unscaled.size());
  oracle_exact_add_squares(&exact, unscaled.data(), unscaled.size());
  oracle_exact_add_magnitudes(&one, unscaled.data(), unscaled.size());
  e.chunks = to_limbs(chunks);
  e.exact = to_limbs(exact);
  e.one = to_limbs(one);
  e.amax = oracle_max_bits(unscaled.data(), unscaled.size(), 0);
  return e;
}

int count_differences(const Implementation& implementation, float inv_scale,
                      const std::vector<float>& grad_sum, const Expected& e) {
  namespace h = cuda::host;
  NormLimbs chunks, exact, one;
  std::uint32_t amax = 0;
  int differ =
      h::fused_finite_and_norm(implementation.exec, inv_scale, grad_sum, chunks) != e.found;
  differ += h::fused_finite(implementation.exec, inv_scale, grad_sum) != e.found;
  h::fused_norm_exact(implementation.exec, inv_scale, grad_sum, exact);
  h::fused_norm_abs(implementation.exec, inv_scale, grad_sum, one);
  h::fused_norm_max(implementation.exec, inv_scale, grad_sum, amax);
  for (NormLimbs* limbs : {&chunks, &exact, &one}) implementation.grad_norm_normalise(*limbs);
  return differ + !(chunks == e.chunks) + !(exact == e.exact) + !(one == e.one) + (amax != e.amax);
}

/// More elements than memory: one block of memory mapped again and again.
class LongGradient {
 public:
  LongGradient(std::int64_t numel, float value)
      : bytes_(static_cast<std::size_t>(numel) * sizeof(float)) {
    const int file = memfd_create("long gradient", 0);
    REQUIRE(file >= 0);
    REQUIRE(ftruncate(file, static_cast<off_t>(block)) == 0);
    const std::vector<float> values(block / sizeof(float), value);
    REQUIRE(write(file, values.data(), block) == static_cast<ssize_t>(block));
    void* whole =
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(whole != MAP_FAILED);
    data_ = static_cast<char*>(whole);
    for (std::size_t at = 0; at < bytes_; at += block) {
      const std::size_t size = std::min(block, bytes_ - at);
      REQUIRE(mmap(data_ + at, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
    }
    close(file);
  }
  ~LongGradient() { munmap(data_, bytes_); }
  LongGradient(const LongGradient&) = delete;
  LongGradient& operator=(const LongGradient&) = delete;

  Span<const float> view() const {
    return {reinterpret_cast<const float*>(data_), bytes_ / sizeof(float)};
  }

 private:
  static constexpr std::size_t block = std::size_t{1} << 22;
  std::size_t bytes_;
  char* data_ = nullptr;
};

}  // namespace

TEST_CASE("norm: the fused passes over grad_sum") {
  int passes = 0, differ = 0;
  std::string first;
  for (const DataFamily& family : data_families) {
    for (float inv_scale : {1.0F, 0x1.555556p-3F, 0x1p-126F, 0x1p126F}) {
      for (std::size_t numel : {0, 1, 2, 15, 17, 31, 33, 1023, 1024, 1025, 3000, 20001}) {
        std::vector<float> grad_sum(numel);
        for (std::size_t i = 0; i < numel; ++i) grad_sum[i] = family.value(i);
        const Expected expected = expect(inv_scale, grad_sum);
        for (Implementation implementation : all_implementations()) {
          if (!implementation.is_host) continue;
          implementation.exec.num_threads = passes % 5 == 0 ? 3 : 1;
          ++passes;
          const int here = count_differences(implementation, inv_scale, grad_sum, expected);
          if (here > 0 && differ == 0)
            first = implementation.name + ", " + family.name + ", numel " + std::to_string(numel);
          differ += here;
        }
      }
    }
  }
  std::printf("norm, fused passes: %d passes of every form, %d differ\n", passes, differ);
  CHECK_MESSAGE(differ == 0, first);
}

TEST_CASE("slow: norm: more elements than limbs can take without a normalisation") {
  // The magnitude (2^24 - 1) * 2^8 puts 0xFFFFFF00 into the limb of weight 2^0: 2^32 of them leave 64 bits.
  constexpr std::int64_t numel = (std::int64_t{1} << 32) + 1000003;
  constexpr float value = 0xFFFFFFp8F;
  const LongGradient grad(numel, -value);
  // numel * 0xFFFFFF00 in digits of 32 bits, by hand: the lower and the upper half of numel.
  constexpr std::uint64_t digit = 0xFFFFFF00, count = numel;
  constexpr std::uint64_t low = (count & 0xFFFFFFFFU) * digit,
                          high = (count >> 32) * digit + (low >> 32);
  std::uint64_t expected[oracle_limbs] = {};
  expected[11] = low & 0xFFFFFFFFU;
  expected[12] = high & 0xFFFFFFFFU;
  expected[13] = high >> 32;
  for (const Implementation& implementation :
       implementations_with(&Implementation::grad_abs_accumulate)) {
    Exec exec = implementation.exec;
    exec.num_threads = 1;
    NormLimbs limbs;
    implementation.grad_abs_accumulate(exec, grad.view(), limbs);
    implementation.grad_norm_normalise(limbs);
    std::int64_t differ = 0;
    for (std::size_t i = 0; i < limbs.limbs.size(); ++i) differ += limbs.limbs[i] != expected[i];
    std::printf("norm one: %s, %lld elements, %lld limbs differ\n", implementation.name.c_str(),
                static_cast<long long>(numel), static_cast<long long>(differ));
    std::fflush(stdout);
    CHECK_MESSAGE(differ == 0, implementation.name);
  }
}

}  // namespace norm_fused_test
