// Sums by a library, just inside and just outside of the bound for any order of additions.

#include <doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/philox.hpp"
#include "tests/verification/compare/judge/judge_support.hpp"
#include "verification/compare/judge/native_bound.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Micro-batch gradients set by a test, [numel] in fp32.
class GivenGrads final : public GradProvider {
 public:
  explicit GivenGrads(const std::vector<std::vector<float>>& leaves) {
    for (const std::vector<float>& leaf : leaves) {
      GradCache::Grad& grad = grads_.emplace_back();
      grad.values = GuardedBuffer(static_cast<std::int64_t>(leaf.size()), DType::fp32);
      std::memcpy(grad.values.data(), leaf.data(), leaf.size() * sizeof(float));
    }
  }
  const GradCache::Grad& micro_batch_grad(std::int64_t micro_batch) override {
    return grads_[micro_batch];
  }

 private:
  std::vector<GradCache::Grad> grads_;
};

/// [Sum:any_order] for one element: the exact sum, and the largest distance of any order from it.
struct Allowed {
  long double sum = 0;
  long double bound = 0;
};

Allowed allowed(const std::vector<float>& terms) {
  Allowed result;
  long double magnitudes = 0;
  for (const float x : terms) {
    result.sum += x;
    magnitudes += std::fabs(static_cast<long double>(x));
  }
  const long double nu = static_cast<long double>(terms.size() - 1) * 0x1p-24L;
  result.bound = nu / (1 - nu) * magnitudes;
  return result;
}

/// A float whose distance from the sum is between `low` and `high` bounds, above or below it; NaN
/// if none exists.
float at_distance(const Allowed& a, long double low, long double high, bool above) {
  const long double side = above ? 1 : -1;
  const auto candidate = static_cast<float>(a.sum + side * (low + high) / 2 * a.bound);
  const long double distance = side * (candidate - a.sum);
  const bool there = a.bound > 0 && distance >= low * a.bound && distance <= high * a.bound;
  return there ? candidate : std::numeric_limits<float>::quiet_NaN();
}

std::int64_t differing(const std::vector<std::vector<float>>& leaves, std::vector<float> sums) {
  GivenGrads provider(leaves);
  const auto numel = static_cast<std::int64_t>(sums.size());
  const Comparison result = compare_native({sums.data(), DType::fp32, numel}, {{0, 0, 0, 0, numel}},
                                           provider, static_cast<std::int64_t>(leaves.size()));
  CHECK(result.compared == numel);
  return result.differing;
}

std::int64_t differing(const std::vector<float>& terms, float sum) {
  std::vector<std::vector<float>> leaves;
  for (const float x : terms) leaves.push_back({x});
  return differing(leaves, std::vector<float>{sum});
}

}  // namespace

TEST_CASE("judge: a native sum at 0.9 of its bound passes, at 1.1 it fails") {
  constexpr std::size_t numel = 400;
  for (const std::size_t micro_batches : {2U, 3U, 7U, 16U, 64U}) {
    CAPTURE(micro_batches);
    std::vector<std::vector<float>> leaves(micro_batches);
    for (std::size_t j = 0; j < micro_batches; ++j) {
      const Philox philox(11, static_cast<std::uint32_t>(j));
      for (std::size_t i = 0; i < numel; ++i)
        leaves[j].push_back(philox.bell(i) * (i % 3 == 0 ? 1e-6F : 1.0F));
    }
    for (const bool above : {true, false}) {
      std::vector<std::vector<float>> used(micro_batches);
      std::vector<float> inside, outside;
      for (std::size_t i = 0; i < numel; ++i) {
        std::vector<float> terms;
        for (const std::vector<float>& leaf : leaves) terms.push_back(leaf[i]);
        const Allowed a = allowed(terms);
        const float near = at_distance(a, 0.85L, 0.95L, above);
        const float far = at_distance(a, 1.05L, 1.15L, above);
        if (std::isnan(near) || std::isnan(far)) continue;  // the spacing of floats is larger there
        for (std::size_t j = 0; j < micro_batches; ++j) used[j].push_back(terms[j]);
        inside.push_back(near);
        outside.push_back(far);
      }
      REQUIRE(inside.size() >= 10);
      CHECK(differing(used, inside) == 0);
      CHECK(differing(used, outside) == static_cast<std::int64_t>(outside.size()));
    }
  }
}

TEST_CASE("judge: native sums that are not finite, and the sum of one leaf") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(differing({1.0F, 2.0F}, 3.0F) == 0);
  CHECK(differing({1.0F, 2.0F}, nan) == 1);
  CHECK(differing({1.0F, 2.0F}, inf) == 1);
  CHECK(differing({1.0F, inf}, 3.0F) == 1);
  CHECK(differing({1.0F, inf}, inf) == 0);
  CHECK(differing({inf, -inf}, nan) == 0);
  CHECK(differing({0x1p126F, 0x1p126F}, inf) ==
        0);  // magnitudes of 2^127: another order may overflow
  CHECK(differing({0x1.8p125F, 0x1p125F}, inf) == 1);
  CHECK(differing({0.1F}, 0.1F) == 0);
  CHECK(differing({0.1F}, std::nextafter(0.1F, 1.0F)) == 1);
}

TEST_CASE("judge: a candidate's native sum beyond the bound in one element fails") {
  TinyTraining run(DType::fp32);
  ParallelConfig place;
  place.grad_sum = GradSum::native;
  const CaseSpec spec = run.spec(1, 1, place);
  const auto judged = [&](long double low, long double high) {
    return judge_candidate(
        run, spec, 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
          if (now != Phase::reduce) return;
          const TensorView params = exposed(o, Phase::gather, BufferId::param_full)->view;
          auto* sums =
              static_cast<float*>(exposed(o, Phase::reduce, BufferId::grad_sum)->view.data);
          std::vector<GuardedBuffer> leaves;
          for (std::int64_t j = 0; j < run.config.micro_batches; ++j) {
            leaves.emplace_back(params.numel, DType::fp32);
            run.experiment.micro_batch_grad(1, j, params, o.loss_scaler().log2_scale,
                                            leaves.back().view());
          }
          for (std::int64_t i = 0; i < run.experiment.layout().tensors()[0].numel; ++i) {
            std::vector<float> terms;
            for (const GuardedBuffer& leaf : leaves) terms.push_back(leaf.as<float>()[i]);
            const float moved = at_distance(allowed(terms), low, high, true);
            if (std::isnan(moved)) continue;
            sums[i] = moved;
            return;
          }
          FAIL("no element has floats at that distance");
        });
  };
  CHECK_FALSE(judged(0.85L, 0.95L).first);
  const Judged wrong = judged(1.05L, 1.15L);
  REQUIRE(wrong.first);
  CHECK(wrong.first->phase == Phase::reduce);
  CHECK(wrong.first->buffer == "grad_sum");
  CHECK(wrong.first->differing == 1);
  CHECK(says(wrong, "outside the bound around the exact sum"));
}
