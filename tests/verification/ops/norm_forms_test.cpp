// The forms exact, one and inf of the norm (R12) against the oracle: equal bits for any partition,
// in any order, by any number of threads and ranks.

#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/philox.hpp"
#include "oracle.h"
#include "oracle_implementations.hpp"
#include "oracle_limbs.hpp"
#include "oracle_norm_cases.hpp"

namespace norm_forms_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// `exact` and `one` differ only in the added terms and in the finish.
struct Form {
  const char* name;
  GradNormExactAccumulateFn* Implementation::*accumulate;
  GradNormFinishFn* Implementation::*finish;
  void (*add)(oracle_exact*, const float*, std::size_t);
  double (*value)(const oracle_exact*);
  double (*value_of_limbs)(const oracle_sum*);
};

const Form forms[] = {
    {"exact", &Implementation::grad_norm_exact_accumulate, &Implementation::grad_norm_finish,
     oracle_exact_add_squares, oracle_exact_norm, oracle_norm_finish},
    {"one", &Implementation::grad_abs_accumulate, &Implementation::grad_abs_finish,
     oracle_exact_add_magnitudes, oracle_exact_value, oracle_norm_value}};

/// Random pieces, split anywhere, in random order, on up to 8 ranks whose integers are added.
struct Cut {
  std::vector<Span<const float>> pieces;
  std::vector<std::size_t> rank_of;
  std::size_t ranks = 1;
};

Cut make_cut(const Tensors& tensors, int sharding) {
  const Philox philox(23, static_cast<std::uint32_t>(sharding));
  std::uint64_t next = 0;
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(philox.below(next++, std::max<std::size_t>(bound, 1)));
  };
  Cut cut;
  cut.ranks = 1 + below(8);
  const std::size_t longest = sharding == 0 ? SIZE_MAX : sharding == 1 ? 3 : 1 + below(20000);
  for (const auto& tensor : tensors) {
    for (std::size_t first = 0; first < tensor.size();) {
      const std::size_t numel =
          std::min(tensor.size() - first, sharding == 0 ? longest : 1 + below(longest));
      cut.pieces.push_back(Span<const float>(tensor).subspan(first, numel));
      first += numel;
    }
    cut.pieces.push_back(Span<const float>(tensor).subspan(tensor.size()));  // an empty one
  }
  for (std::size_t i = cut.pieces.size(); i > 1; --i)
    std::swap(cut.pieces[i - 1], cut.pieces[below(i)]);
  for (std::size_t i = 0; i < cut.pieces.size(); ++i) cut.rank_of.push_back(below(cut.ranks));
  return cut;
}

NormLimbs sharded_limbs(const Implementation& implementation, const Form& form, const Exec& exec,
                        const Cut& cut) {
  std::vector<NormLimbs> ranks(cut.ranks);
  for (std::size_t i = 0; i < cut.pieces.size(); ++i) {
    (implementation.*form.accumulate)(exec, cut.pieces[i], ranks[cut.rank_of[i]]);
  }
  NormLimbs sum;
  for (NormLimbs& rank : ranks) {
    implementation.grad_norm_normalise(rank);
    for (std::size_t i = 0; i < sum.limbs.size(); ++i) sum.limbs[i] += rank.limbs[i];
    sum.nan_count += rank.nan_count;
    sum.inf_count += rank.inf_count;
  }
  return sum;
}

}  // namespace

TEST_CASE("exact and one: boundaries, orders, ranks and threads") {
  constexpr int shardings = 6;
  for (const Form& form : forms) {
    const std::vector<Implementation> implementations = implementations_with(form.accumulate);
    for (const DataFamily& family : data_families) {
      const Tensors tensors = make_tensors(family);
      oracle_exact expected;
      oracle_exact_clear(&expected);
      for (const auto& tensor : tensors) form.add(&expected, tensor.data(), tensor.size());
      const std::uint64_t bits = norm_bits(form.value(&expected));
      int differ = 0;
      for (int sharding = 0; sharding < shardings; ++sharding) {
        const Cut cut = make_cut(tensors, sharding);
        for (const Implementation& implementation : implementations) {
          // A copy to a GPU and back for every three elements takes minutes; the next test has
          // short tensors.
          if (sharding == 1 && implementation.name == "device") continue;
          Exec exec = implementation.exec;
          exec.num_threads = sharding == 0 || sharding == 3 ? 3 : 1;
          NormLimbs sum = sharded_limbs(implementation, form, exec, cut);
          const std::uint64_t before =
              norm_bits((implementation.*form.finish)(sum));  // not normalised: the same value
          implementation.grad_norm_normalise(sum);
          const std::uint64_t after = norm_bits((implementation.*form.finish)(sum));
          if (sum == to_limbs(expected) && before == bits && after == bits) continue;
          if (differ++ > 0) continue;
          std::printf("norm %s: %s, sharding %d: %016llX before, %016llX after, oracle %016llX\n",
                      form.name, implementation.name.c_str(), sharding,
                      static_cast<unsigned long long>(before),
                      static_cast<unsigned long long>(after),
                      static_cast<unsigned long long>(bits));
        }
      }
      std::printf("norm %s, %s: %d shardings x %zu implementations, N = %a, %d differ\n", form.name,
                  family.name, shardings, implementations.size(), form.value(&expected), differ);
      CHECK(differ == 0);
    }
  }
}

TEST_CASE("exact and one: every numel up to 1100 at every offset, any float") {
  for (const Form& form : forms) {
    for (const Implementation& implementation : implementations_with(form.accumulate)) {
      std::int64_t differ = 0;
      std::vector<float> storage(1100 + 33 + 1);
      for (std::size_t numel = 0; numel <= 1100; ++numel) {
        const std::size_t offset = numel % 33;
        std::ranges::fill(storage,
                          from_bits(0x7FC00000));  // values around the piece must not count
        for (std::size_t i = 0; i < numel; ++i) {
          const float x = data_families[numel % 2 == 0 ? 1 : 4].value(numel * 1200 + i);
          storage[offset + i] = numel % 7 == 0 ? from_bits(random_word(numel * 1200 + i, 9)) : x;
        }
        oracle_exact expected;
        oracle_exact_clear(&expected);
        form.add(&expected, storage.data() + offset, numel);
        NormLimbs limbs;
        (implementation.*form.accumulate)(implementation.exec,
                                          Span<const float>(storage).subspan(offset, numel), limbs);
        implementation.grad_norm_normalise(limbs);
        differ += !(limbs == to_limbs(expected));
      }
      CHECK_MESSAGE(differ == 0, implementation.name);
    }
  }
}

TEST_CASE("one: finishes any limbs") {
  constexpr std::uint64_t cases = 100000;
  for (const Implementation& implementation :
       implementations_with(&Implementation::grad_abs_finish)) {
    std::int64_t differ = 0;
    for (std::uint64_t index = 0; index < cases; ++index) {
      NormLimbs limbs = random_limbs(index);
      oracle_sum expected;
      oracle_norm_clear(&expected);
      oracle_norm_add_limbs(&expected, limbs.limbs.data());
      const std::uint64_t bits = norm_bits(oracle_norm_value(&expected));
      differ += norm_bits(implementation.grad_abs_finish(limbs)) != bits;
      implementation.grad_norm_normalise(limbs);
      differ += norm_bits(implementation.grad_abs_finish(limbs)) != bits;
    }
    NormLimbs special;
    CHECK(norm_bits(implementation.grad_abs_finish(special)) == 0);  // +0
    special.inf_count = 2;
    CHECK(norm_bits(implementation.grad_abs_finish(special)) == 0x7FF0000000000000);
    special.nan_count = 1;
    CHECK(norm_bits(implementation.grad_abs_finish(special)) == 0x7FFFFFFFFFFFFFFF);
    CHECK_MESSAGE(differ == 0, implementation.name);
  }
}

TEST_CASE("inf: boundaries, threads, every numel up to 200, any start") {
  std::int64_t calls = 0, differ = 0;
  const std::vector<Implementation> implementations =
      implementations_with(&Implementation::grad_max_accumulate);
  for (const DataFamily& family : data_families) {
    for (std::size_t numel = 0; numel <= 200; ++numel) {
      std::vector<float> grad(numel + 33, from_bits(0x7FC00000));
      const std::size_t offset = numel % 33;
      for (std::size_t i = 0; i < numel; ++i)
        grad[offset + i] = family.value(100003 - 50 + i + 7 * numel);
      const auto start = static_cast<std::uint32_t>(numel % 5 == 0 ? 0x3F800000 : 0);
      const std::uint32_t expected = oracle_max_bits(grad.data() + offset, numel, start);
      for (const Implementation& implementation : implementations) {
        Exec exec = implementation.exec;
        exec.num_threads = numel % 50 == 0 ? 3 : 1;
        std::uint32_t amax = start;
        implementation.grad_max_accumulate(exec, Span<const float>(grad).subspan(offset, numel),
                                           amax);
        differ += amax != expected;
        ++calls;
      }
    }
  }
  std::printf("norm inf: %lld calls, %lld differ\n", static_cast<long long>(calls),
              static_cast<long long>(differ));
  CHECK(differ == 0);
  for (const Implementation& implementation :
       implementations_with(&Implementation::grad_max_finish)) {
    std::int64_t wrong = 0;
    for (std::uint64_t i = 0; i < 100000; ++i) {
      const std::uint32_t bits =
          i < 4 ? 0x7F800000U - 1 + static_cast<std::uint32_t>(i) : random_word(i, 4) & 0x7FFFFFFFU;
      wrong +=
          norm_bits(implementation.grad_max_finish(bits)) != norm_bits(oracle_max_finish(bits));
    }
    CHECK(norm_bits(implementation.grad_max_finish(0)) == 0);
    CHECK_MESSAGE(wrong == 0, implementation.name);
  }
}

}  // namespace norm_forms_test
