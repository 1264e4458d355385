// The global norm (R12) of every implementation against the oracle: equal bits for any partition,
// in any order, by any number of threads.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "oracle.h"
#include "oracle_implementations.hpp"
#include "oracle_limbs.hpp"
#include "oracle_norm_cases.hpp"

namespace norm_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

constexpr int shardings = 24;

void add_limbs(NormLimbs& sum, const NormLimbs& part) {
  for (std::size_t i = 0; i < sum.limbs.size(); ++i) sum.limbs[i] += part.limbs[i];
  sum.nan_count += part.nan_count;
  sum.inf_count += part.inf_count;
}

/// A stream of random numbers for the shape of one sharding.
class Draw {
 public:
  explicit Draw(int sharding) : philox_(11, static_cast<std::uint32_t>(sharding)) {}
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(philox_.below(next_++, bound));
  }

 private:
  Philox philox_;
  std::uint64_t next_ = 0;
};

/// Pieces of all tensors, split at multiples of the chunk, in random order. Sharding 0 splits
/// nowhere, 1 splits everywhere.
std::vector<Span<const float>> make_pieces(const Tensors& tensors, int sharding, Draw& draw) {
  std::vector<Span<const float>> pieces;
  const std::size_t longest = sharding == 0 ? 1 << 20 : sharding == 1 ? 1 : 1 + draw.below(40);
  for (const auto& tensor : tensors) {
    std::size_t first = 0;
    do {  // a tensor without elements is an empty piece
      const std::size_t chunks = 1 + (sharding == 0 ? longest : draw.below(longest));
      const std::size_t numel =
          std::min(tensor.size() - first, chunks * std::size_t{norm_chunk_numel});
      pieces.push_back(Span<const float>(tensor).subspan(first, numel));
      first += numel;
    } while (first < tensor.size());
  }
  for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[draw.below(i)]);
  return pieces;
}

/// Every rank counts its pieces and normalises, the ranks add integers, and the sum is normalised.
NormLimbs sharded_limbs(const Implementation& implementation, const Exec& exec,
                        const Tensors& tensors, int sharding) {
  Draw draw(sharding);
  std::vector<NormLimbs> ranks(1 + draw.below(8));
  for (const Span<const float>& piece : make_pieces(tensors, sharding, draw)) {
    implementation.grad_norm_accumulate(exec, piece, ranks[draw.below(ranks.size())]);
  }
  NormLimbs sum;
  for (NormLimbs& rank : ranks) {
    implementation.grad_norm_normalise(rank);
    add_limbs(sum, rank);
  }
  return sum;
}

/// Returns the number of shardings and thread counts whose limbs or norm differ from the oracle's.
int count_differences(const Implementation& implementation, const Tensors& tensors,
                      const oracle_sum& expected, int max_threads) {
  int differ = 0;
  const NormLimbs limbs = to_limbs(expected);
  const std::uint64_t bits = norm_bits(oracle_norm_finish(&expected));
  for (int sharding = 0; sharding < shardings; ++sharding) {
    for (int threads = 1; threads <= max_threads; ++threads) {
      Exec exec = implementation.exec;
      exec.num_threads = threads;
      NormLimbs sum = sharded_limbs(implementation, exec, tensors, sharding);
      const std::uint64_t before =
          norm_bits(implementation.grad_norm_finish(sum));  // not normalised: the same value
      implementation.grad_norm_normalise(sum);
      const std::uint64_t after = norm_bits(implementation.grad_norm_finish(sum));
      if (sum == limbs && before == bits && after == bits) continue;
      if (differ++ > 0) continue;
      std::printf(
          "norm: %s, sharding %d, threads %d: %016llX before, %016llX after, oracle %016llX\n",
          implementation.name.c_str(), sharding, threads, static_cast<unsigned long long>(before),
          static_cast<unsigned long long>(after), static_cast<unsigned long long>(bits));
    }
  }
  return differ;
}

}  // namespace

TEST_CASE("norm: shardings, orders and threads") {
  const std::vector<Implementation> implementations = all_implementations();
  for (const DataFamily& family : data_families) {
    const Tensors tensors = make_tensors(family);
    oracle_sum expected;
    oracle_norm_clear(&expected);
    std::vector<const float*> data;
    std::vector<std::size_t> numels;
    for (const auto& tensor : tensors) {
      oracle_norm_add(&expected, tensor.data(), tensor.size());
      data.push_back(tensor.data());
      numels.push_back(tensor.size());
    }
    const double norm = oracle_norm_finish(&expected);
    CHECK(norm_bits(oracle_norm(data.data(), numels.data(), data.size())) == norm_bits(norm));
    // The work of threads does not depend on values, so every fourth family is enough; threads that
    // wait for each other are slow.
    const int max_threads = (&family - data_families) % 4 == 0 ? 3 : 1;
    int differ = 0;
    for (const Implementation& implementation : implementations)
      differ += count_differences(implementation, tensors, expected, max_threads);
    std::printf("norm %s: %d shardings x %zu implementations x threads 1..%d, N = %a, %d differ\n",
                family.name, shardings, implementations.size(), max_threads, norm, differ);
    CHECK(differ == 0);
  }
}

TEST_CASE("norm: every numel up to 3 chunks") {
  for (const Implementation& implementation : all_implementations()) {
    std::int64_t differ = 0;
    std::vector<float> storage(3100 + 33,
                               from_bits(0x7FC00000));  // values after the tensor must not count
    for (std::size_t numel = 0; numel <= 3100; ++numel) {
      const std::size_t offset = numel % 33;
      for (std::size_t i = 0; i < numel; ++i) storage[offset + i] = training_element(i)[0];
      for (std::size_t i = offset + numel; i < storage.size(); ++i)
        storage[i] = from_bits(0x7FC00000);
      oracle_sum expected;
      oracle_norm_clear(&expected);
      oracle_norm_add(&expected, storage.data() + offset, numel);
      NormLimbs limbs;
      implementation.grad_norm_accumulate(implementation.exec,
                                          Span<const float>(storage).subspan(offset, numel), limbs);
      implementation.grad_norm_normalise(limbs);
      if (!(limbs == to_limbs(expected))) ++differ;
    }
    CHECK_MESSAGE(differ == 0, implementation.name);
  }
}

TEST_CASE("norm: finish and normalise for any limbs") {
  constexpr std::uint64_t cases = 200000;
  for (const Implementation& implementation : all_implementations()) {
    std::int64_t differ = 0;
    for (std::uint64_t index = 0; index < cases; ++index) {
      NormLimbs limbs = random_limbs(index);
      oracle_sum expected;
      oracle_norm_clear(&expected);
      oracle_norm_add_limbs(&expected, limbs.limbs.data());
      const std::uint64_t bits = norm_bits(oracle_norm_finish(&expected));
      if (norm_bits(implementation.grad_norm_finish(limbs)) != bits) ++differ;
      implementation.grad_norm_normalise(limbs);
      if (!(limbs == to_limbs(expected)) ||
          norm_bits(implementation.grad_norm_finish(limbs)) != bits)
        ++differ;
    }
    std::printf("norm finish: %s, %llu sums, %lld differ\n", implementation.name.c_str(),
                static_cast<unsigned long long>(cases), static_cast<long long>(differ));
    CHECK(differ == 0);
  }
}

TEST_CASE("clip coefficient") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> norms = {0, 0x1p-149, 1e-6,    0.5, 0.999999, 1 - 1e-6,
                               1, 1e30,     0x1p140, inf, nan};
  std::vector<double> max_norms = {0,    -0.0,     0x1p-1074, 1e-6, 0.5,        1,
                                   1e30, 0x1p1023, inf,       -1,   -0x1p-1074, nan};
  for (std::uint64_t i = 0; i < 600;
       ++i) {  // random numbers around 1, so that some quotients are near 1
    (i % 2 == 0 ? norms : max_norms).push_back(0.5 + Philox(17).below(i, UINT64_MAX) * 0x1p-64);
  }
  for (const Implementation& implementation : implementations_with(&Implementation::clip_coef)) {
    int differ = 0;
    for (double norm : norms) {
      CHECK(std::bit_cast<std::uint32_t>(implementation.clip_coef(norm, std::nullopt)) ==
            0x3F800000);
      for (double max_norm : max_norms) {
        float expected = 0;
        const bool allowed = oracle_clip_coef(norm, 1, max_norm, &expected) != 0;
        try {
          const float actual = implementation.clip_coef(norm, max_norm);
          const bool both_nan = actual != actual && expected != expected;
          const bool same_bits =
              std::bit_cast<std::uint32_t>(actual) == std::bit_cast<std::uint32_t>(expected);
          differ += !(allowed && (both_nan || same_bits));
        } catch (const Error& error) {
          differ += allowed || error.code() != ErrorCode::invalid_argument;
        }
      }
    }
    CHECK_MESSAGE(differ == 0, implementation.name);
  }
}

}  // namespace norm_test
