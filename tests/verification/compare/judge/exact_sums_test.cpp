// The exact sum and bound for a native sum on a grid: numbers by hand.

#include <doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/grid.hpp"
#include "verification/compare/judge/exact_sums.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

using Values =
    std::array<float,
               3>;  // two elements with parts on both TP ranks, and one of a split tensor

/// One micro-batch.
class OneLeaf final : public GradProvider {
 public:
  OneLeaf(const FlatLayout& layout, const Values& values) {
    leaf_.values = GuardedBuffer(layout.padded_numel(), DType::fp32);
    leaf_.values.poison();
    std::copy_n(values.begin(), 2, leaf_.values.as<float>().begin() + layout.tensors()[0].begin);
    leaf_.values.as<float>()[layout.tensors()[1].begin] = values[2];
  }
  const GradCache::Grad& micro_batch_grad(std::int64_t) override { return leaf_; }

 private:
  GradCache::Grad leaf_;
};

}  // namespace

TEST_CASE(
    "exact sums: TP parts are rounded first, then parts of CP ranks and instances are added") {
  // [data rank][TP rank]; data ranks 0 and 1 share micro-batch 0, ranks 2 and 3 are another instance with micro-batch
  // 1.
  constexpr Values parts[4][2] = {{{1, 5, -3}, {0x1p-24F, -5, 7}},
                                  {{0x1p-24F, 0, 1}, {0, 2, 8}},
                                  {{0, 0x1p-30F, 0}, {0, 0, -8}},
                                  {{0, 0, 0x1p-40F}, {0x1p-25F, -1, 1}}};
  const FlatLayout layout({{"replicated", {2}}, {"cut", {1}}});
  std::array<ExactSums, 8> got;
  tests::run_grid({2, 2, 2, 2}, [&](const tests::GridPlace& place) {
    const int data_rank = place.instance * 2 + place.rank;
    OptimizerSetup setup;
    place.into(setup);
    setup.layout = &layout;
    setup.cp = 2;
    setup.micro_batches = 2;
    setup.placement = {{true, 0, 2, 2}, {false, 1024 + place.tp_rank, 1, 2}};
    OneLeaf leaf(layout, parts[data_rank][place.tp_rank]);
    got[place.number] = exact_sums(setup, {data_rank / 2}, leaf);
  });
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    const ExactSums& exact = got[rank];
    CHECK(exact.terms == 4);
    CHECK(exact.sums[0] == 1 + 0x1p-24 + 0x1p-25);  // 1 + 2^-24 is 1 when two TP ranks add it
    CHECK(exact.magnitudes[0] == exact.sums[0]);
    CHECK(exact.sums[1] == 0 + 2 + 0x1p-30 - 1);
    CHECK(exact.magnitudes[1] == 0 + 2 + 0x1p-30 + 1);
    CHECK(exact.sums[1024] == (rank % 2 == 0 ? -3 + 1 + 0x1p-40 : 7 + 8 - 8 + 1));
    CHECK(exact.magnitudes[1024] == (rank % 2 == 0 ? 3 + 1 + 0x1p-40 : 7 + 8 + 8 + 1));
  }
}
