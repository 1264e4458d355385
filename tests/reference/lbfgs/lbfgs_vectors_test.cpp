// Vectors over ranks: a value on one rank alone must reach all of them.

#include "reference/lbfgs/lbfgs_vectors.hpp"

#include <functional>

#include "common/comm/threads.hpp"
#include "tests/reference/support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The results of three ranks with 1024 elements each of a vector of 2500; the last rank's part is
/// mostly padding.
std::vector<double> on_ranks(const std::vector<float>& full,
                             const std::function<double(const reference::ShardVectors&,
                                                        const reference::ShardVector&)>& reduce) {
  const FlatLayout layout({{"x", {2500}}});
  const ShardMap shards(layout.padded_numel(), 3, 3072);
  std::vector<double> results(3);
  ThreadWorld world(3);
  run_ranks(world, [&](Communicator& comm) {
    const reference::ShardVectors vectors({&layout, &shards, &comm, {}, {}});
    results[comm.rank()] = reduce(vectors, vectors.shard_of(full));
  });
  return results;
}

std::vector<float> ones_but(std::size_t index, float value) {
  std::vector<float> full(3072, 1.0F);
  std::fill(full.begin() + 2500, full.end(), nan32);  // padding
  full[index] = value;
  return full;
}

}  // namespace

TEST_CASE("lbfgs vectors: one element on one rank determines the result on all ranks") {
  const auto dot = [](const auto& vectors, const auto& a) { return vectors.dot(a, a); };
  const auto sum_abs = [](const auto& vectors, const auto& a) { return vectors.sum_abs(a); };
  const auto max_abs = [](const auto& vectors, const auto& a) { return vectors.max_abs(a); };
  for (const std::size_t index : {0, 1023, 1024, 2047, 2048, 2499}) {
    for (const float value : {-5.0F, -inf32, nan32}) {
      const std::vector<float> full = ones_but(index, value);
      const double magnitude = std::fabs(double{value});
      for (const double result : on_ranks(full, dot))
        CHECK(bits(result) == bits(2499 + magnitude * magnitude));
      for (const double result : on_ranks(full, sum_abs))
        CHECK(bits(result) == bits(2499 + magnitude));
      for (const double result : on_ranks(full, max_abs)) CHECK(bits(result) == bits(magnitude));
    }
  }
}

TEST_CASE("lbfgs vectors: products of both signs are combined over ranks") {
  const auto against_first = [](const auto& vectors, const auto& a) {
    reference::ShardVector b = vectors.make();
    vectors.negate(a, b);
    return vectors.dot(a, b);
  };
  for (const double result : on_ranks(ones_but(1500, 3), against_first)) CHECK(result == -2508);
}
