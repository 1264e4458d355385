// The report of a norm that lacks something names the missing part.

#include <doctest.h>

#include <cstring>

#include "reference/operations.hpp"
#include "tests/verification/compare/judge/judge_support.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// The limbs of a part of g1, by the reference.
NormLimbs limbs_of(const float* values, std::int64_t numel) {
  NormLimbs limbs;
  reference::grad_norm_accumulate({}, {values, static_cast<std::size_t>(numel)}, limbs);
  return limbs;
}

/// a - b, both normalised, a >= b.
NormLimbs without(const NormLimbs& a, NormLimbs b) {
  reference::grad_norm_normalise(b);
  NormLimbs difference = a;
  for (std::size_t i = 0; i < a.limbs.size(); ++i) {
    if (difference.limbs[i] < b.limbs[i]) {
      difference.limbs[i] += std::uint64_t{1} << 32;
      --difference.limbs[i + 1];
    }
    difference.limbs[i] -= b.limbs[i];
  }
  return difference;
}

/// One step whose norm on every rank is the correct one edited by `change`; `grad` is g1 of that
/// rank.
Judged judge_norm(
    TinyTraining& run, const CaseSpec& spec,
    const std::function<NormLimbs(const NormLimbs& right, const float* grad)>& change) {
  return judge_candidate(run, spec, 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
    if (now != Phase::norm) return;
    void* words = exposed(o, Phase::norm, BufferId::norm_limbs)->view.data;
    NormLimbs limbs;
    std::memcpy(&limbs, words, sizeof(limbs));
    limbs = change(limbs, static_cast<const float*>(
                              exposed(o, Phase::unscale, BufferId::unscaled_grad)->view.data));
    std::memcpy(words, &limbs, sizeof(limbs));
  });
}

}  // namespace

TEST_CASE("judge: a norm that lacks a tensor, or counts one twice, names it") {
  TinyTraining run(DType::bf16);
  for (const TensorSlot& slot :
       {run.experiment.layout().tensors()[2], run.experiment.layout().tensors().back()}) {
    const Judged lacks =
        judge_norm(run, run.spec(1, 1), [&](const NormLimbs& right, const float* grad) {
          return without(right, limbs_of(grad + slot.begin, slot.numel));
        });
    CHECK(says(lacks, "it lacks " + slot.name + ", whose norm is "));
    const Judged twice = judge_norm(run, run.spec(1, 1), [&](NormLimbs right, const float* grad) {
      reference::grad_norm_accumulate({}, {grad + slot.begin, static_cast<std::size_t>(slot.numel)},
                                      right);
      reference::grad_norm_normalise(right);
      return right;
    });
    CHECK(says(twice, "it counts twice " + slot.name + ", whose norm is "));
  }
}

TEST_CASE("judge: a norm of one rank's elements is reported as such") {
  TinyTraining run(DType::bf16);
  const CaseSpec spec = run.spec(3, 2);
  const CaseLayout layout(run.experiment, spec, 3);
  const Judged alone = judge_candidate(
      run, spec, 1, [&](int rank, std::optional<Phase> now, DistributedOptimizer& o) {
        if (now != Phase::norm || rank != 0) return;  // as if the ranks had not been summed
        const ExposedBuffer grad = exposed(o, Phase::unscale, BufferId::unscaled_grad).value();
        NormLimbs limbs;
        for (const Piece& piece : layout.local(0).layout.pieces(grad.ranges)) {
          reference::grad_norm_accumulate(
              {},
              {static_cast<const float*>(grad.view.data) + piece.local_begin,
               static_cast<std::size_t>(piece.numel)},
              limbs);
        }
        reference::grad_norm_normalise(limbs);
        std::memcpy(exposed(o, Phase::norm, BufferId::norm_limbs)->view.data, &limbs,
                    sizeof(limbs));
      });
  CHECK(says(alone, "it has nothing but everything of rank 0, whose norm is "));
}

TEST_CASE("judge: an unexplained wrong norm is reported without a cause") {
  TinyTraining run(DType::bf16);
  const Judged judged = judge_norm(run, run.spec(1, 1), [](NormLimbs right, const float*) {
    right.limbs[9] ^= 1U;
    return right;
  });
  REQUIRE(judged.first);
  CHECK(judged.first->what == "differs from the reference");
}
