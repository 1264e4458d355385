// LAMB by hand: the norms of a tensor, its trust ratio, and the scaled update.

#include <array>
#include <cmath>

#include "reference/operations.hpp"
#include "tests/reference/update/adam_support.hpp"

namespace lamb_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The scalars of adam_test.cpp, and lr.
StepScalars lamb_scalars(float step_size, float lr) {
  StepScalars s = dyadic_scalars(step_size);
  s.lr = lr;
  return s;
}

/// Odd factors, so that every operation rounds.
StepScalars usual_scalars(bool has_decay) {
  StepScalars s{};
  s.beta1 = 0.9F;
  s.one_minus_beta1 = static_cast<float>(1 - double{0.9F});
  s.beta2 = 0.999F;
  s.one_minus_beta2 = static_cast<float>(1 - double{0.999F});
  s.sqrt_bias_correction2 = 0.0547F;
  s.step_size = 3.69e-3F;
  s.eps = 1e-6F;
  s.lr = 1.1e-3F;
  s.lr_weight_decay = 1e-5F;
  s.has_decay = has_decay ? 1 : 0;
  return s;
}

struct LambState {
  std::vector<float> grad, master, exp_avg, exp_avg_sq;

  /// Adds elements begin, begin + 1, .. end - 1.
  void add_norms(const StepScalars& s, std::int64_t begin, std::int64_t end, TrustNorms& norms,
                 const LambOptions& options = {}) const {
    const auto part = [&](const std::vector<float>& values) {
      return Span<const float>(values).subspan(begin, end - begin);
    };
    reference::lamb_norms({}, options, s, part(grad), part(master), part(exp_avg), part(exp_avg_sq),
                          norms);
  }
  /// The norms of the whole tensor, without carries.
  TrustNorms norms(const StepScalars& s, const LambOptions& options = {}) const {
    TrustNorms norms;
    add_norms(s, 0, numel(Span<const float>(grad)), norms, options);
    return normalised(norms);
  }
  static TrustNorms normalised(TrustNorms norms) {
    reference::grad_norm_normalise(norms.weight);
    reference::grad_norm_normalise(norms.update);
    return norms;
  }
  void update(const StepScalars& s, float trust_ratio, const LambOptions& options = {}) {
    reference::lamb_update({}, options, s, trust_ratio, grad, master, exp_avg, exp_avg_sq);
  }
  /// A step of this tensor; returns the ratio.
  float step(const StepScalars& s, const LambOptions& options = {}) {
    const float ratio = reference::lamb_trust_ratio(s, norms(s, options));
    update(s, ratio, options);
    return ratio;
  }
};

LambState random_state(std::int64_t numel) {
  LambState x{gradient_with_specials(numel), random_values(numel, 2), random_values(numel, 3),
              random_values(numel, 4)};
  for (float& value : x.exp_avg_sq) value = std::abs(value);
  return x;
}

/// Norms that contain one element each.
TrustNorms norms_of(float weight, float update) {
  TrustNorms norms;
  reference::grad_norm_exact_accumulate({}, std::array{weight}, norms.weight);
  reference::grad_norm_exact_accumulate({}, std::array{update}, norms.update);
  return norms;
}

float ratio_of(float lr, float weight, float update) {
  StepScalars s{};
  s.lr = lr;
  return reference::lamb_trust_ratio(s, norms_of(weight, update));
}

}  // namespace

TEST_CASE("lamb: three elements, two steps, by hand") {
  LambState x{{1, -3, 0}, {16, -8, 16}, {0, 0, 0}, {0, 0, 0}};

  //   exp_avg   g/2 =     1/2       -3/2      0
  //   sq        g^2/4 =   1/4       9/4       0
  //   d         2|g|/2 + 1 = 2      4         1
  //   q         1/4       -3/8      0
  //   a         8 q = 2   -3        0
  //   w         m/8 = 2   -1        2
  //   u         4         -4        2         N_u = sqrt(16 + 16 + 4) = 6
  //   m         16        -8        16        N_w = sqrt(256 + 64 + 256) = 24
  //   ratio     (5/4 * 24) / 6 = 5
  //   p         20        -20       10
  //   master    -4        12        6
  StepScalars s = lamb_scalars(8, 1.25F);
  const LambState before = x;
  const TrustNorms first = x.norms(s);
  CHECK(first.weight.limbs[11] == 576);  // units of 2^0
  CHECK(first.update.limbs[11] == 36);
  CHECK(x.master == before.master);  // the norms change nothing
  CHECK(x.exp_avg == before.exp_avg);
  CHECK(x.exp_avg_sq == before.exp_avg_sq);
  CHECK(x.step(s) == 5);
  CHECK(x.master == std::vector<float>{-4, 12, 6});
  CHECK(x.exp_avg == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 2.25F, 0});

  //   grad      1/2                 3/2                3
  //   exp_avg   1/4 + 1/4 = 1/2     -3/4 + 3/4 = 0     3/2
  //   sq        3/16 + 1/16 = 1/4   27/16 + 9/16 = 9/4 9/4
  //   d         2                   4                  4
  //   q         1/4                 0                  3/8
  //   a         4 q = 1             0                  3/2
  //   w         -1/2                3/2                3/4
  //   u         1/2                 3/2                9/4      N_u = sqrt(4 + 36 + 81) / 4 = 11/4
  //   m         -4                  12                 6        N_w = sqrt(16 + 144 + 36) = 14
  //   ratio     (11/16 * 14) / (11/4) = 7/2
  //   p         7/4                 21/4               63/8
  //   master    -23/4               27/4               -15/8
  x.grad = {0.5F, 1.5F, 3};
  CHECK(x.step(lamb_scalars(4, 0.6875F)) == 3.5F);
  CHECK(x.master == std::vector<float>{-5.75F, 6.75F, -1.875F});
  CHECK(x.exp_avg == std::vector<float>{0.5F, 0, 1.5F});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 2.25F, 2.25F});

  // maximize takes the gradient with its sign bit flipped.
  LambState ascends = before;
  for (float& g : ascends.grad) g = -g;
  CHECK(ascends.step(s, {true}) == 5);
  CHECK(ascends.master == std::vector<float>{-4, 12, 6});
}

TEST_CASE("lamb: the ratio is 1 if either norm is 0") {
  CHECK(ratio_of(0.5F, 0, 4) == 1);
  CHECK(ratio_of(0.5F, 4, 0) == 1);
  CHECK(ratio_of(0.5F, 0, 0) == 1);
  CHECK(ratio_of(0.5F, -0.0F, 4) == 1);
  for (const float other : {inf32, nan32}) {
    CHECK(ratio_of(0.5F, 0, other) == 1);
    CHECK(ratio_of(0.5F, other, 0) == 1);
  }

  // New tensors of zeros move as with adamw: u = a = (1/8, -3/16).
  LambState zero{{1, -3}, {0, 0}, {0, 0}, {0, 0}};
  CHECK(zero.step(lamb_scalars(0.5F, 0.25F)) == 1);
  CHECK(zero.master == std::vector<float>{-0.125F, 0.1875F});

  // lr = 0 without decay: u = 0 * q. No bit of master changes.
  StepScalars s = lamb_scalars(0, 0);
  s.has_decay = 0;
  LambState still{{1, -3}, {8, -4}, {0, 0}, {0, 0}};
  CHECK(still.step(s) == 1);
  CHECK(still.master == std::vector<float>{8, -4});
  CHECK(still.exp_avg == std::vector<float>{0.5F, -1.5F});

  // A tensor without elements.
  LambState empty;
  CHECK(empty.step(lamb_scalars(0.5F, 0.25F)) == 1);
}

TEST_CASE("lamb: the ratio in fp64, rounded once at the end") {
  CHECK(ratio_of(0.5F, 3, -4) == 0.375F);
  CHECK(bits(ratio_of(0, 3, 4)) == bits(0.0F));
  // Both quotients are halfway between two fp32 values, 2^25 - 5 and 2^25 - 1: only the product of
  // lr and N_w, which is exact, leads there and to the even neighbour.
  CHECK(ratio_of(21, 11184809, 7) == 0x1p25F - 4);  // not lr * (N_w / N_u), which is 2 less
  CHECK(ratio_of(601, 614141, 11) == 0x1p25F);      // not (lr / N_u) * N_w, which is 2 less
  const std::vector<float> values = random_values(3000, 9);
  int differing = 0;
  for (std::size_t i = 0; i < values.size(); i += 3) {
    const float rate = std::abs(values[i]);
    const double w = std::abs(double{values[i + 1]}), u = std::abs(double{values[i + 2]});
    const auto expected = static_cast<float>((double{rate} * w) / u);
    CHECK(bits(ratio_of(rate, values[i + 1], values[i + 2])) == bits(expected));
    differing += bits(expected) != bits(rate * static_cast<float>(w / u)) ? 1 : 0;
  }
  CHECK(differing > 0);  // fp32 between the operations gives other bits
  // Above the fp32 range: infinity.
  CHECK(bits(ratio_of(1, 0x1p100F, 0x1p-100F)) == bits(inf32));
  CHECK(bits(ratio_of(1, 0x1p-100F, 0x1p100F)) == bits(0.0F));
  // Carries may be left in the limbs: 2^32 times 2^-128, the square of 2^-48.
  TrustNorms carried = norms_of(0, 1);
  carried.weight.limbs[7] = std::uint64_t{1} << 32;  // units of 2^-128
  StepScalars s{};
  s.lr = 1;
  CHECK(reference::lamb_trust_ratio(s, carried) == 0x1p-48F);
}

TEST_CASE("lamb: norms that are not finite") {
  for (const auto& [weight, update] :
       {std::pair{nan32, 1.0F}, {1.0F, nan32}, {nan32, inf32}, {inf32, inf32}}) {
    CHECK(bits(ratio_of(0.5F, weight, update)) == bits(nan32));
  }
  CHECK(bits(ratio_of(0.5F, inf32, 1)) == bits(inf32));
  CHECK(bits(ratio_of(0.5F, 1, -inf32)) == bits(0.0F));
  CHECK(bits(ratio_of(0, inf32, 1)) == bits(nan32));

  // u is NaN for a NaN gradient, and for an infinite one (infinity / infinity).
  const StepScalars s = lamb_scalars(0.5F, 0.25F);
  LambState x{{nan32, 1, inf32, 1}, {1, inf32, -4, nan32}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  const TrustNorms norms = x.norms(s);
  CHECK(norms.weight.nan_count == 1);
  CHECK(norms.weight.inf_count == 1);
  CHECK(norms.weight.limbs[11] == 17);
  CHECK(norms.update.nan_count == 3);  // the last by its master
  CHECK(norms.update.inf_count == 1);  // w of the second
  CHECK(std::isnan(x.step(s)));
  for (const float master : x.master) CHECK(std::isnan(master));

  // Every product is evaluated, also with a ratio of 0: an infinite u makes a NaN.
  LambState y{{1, 1}, {8, inf32}, {0, 0}, {0, 0}};
  y.update(s, 0);
  CHECK(y.master[0] == 8);
  CHECK(std::isnan(y.master[1]));
  y = {{1, 1}, {8, -8}, {0, 0}, {0, 0}};
  y.update(s, inf32);  // u = 9/8 and -7/8
  CHECK(bits(y.master) == bits(std::vector<float>{-inf32, inf32}));
}

TEST_CASE("lamb: disabled decay is not evaluated") {
  StepScalars s = lamb_scalars(0.5F, 0.25F);
  s.lr_weight_decay = 0;
  for (const std::uint32_t has_decay : {0U, 1U}) {
    s.has_decay = has_decay;
    LambState x{{1}, {inf32}, {0}, {0}};
    CHECK(x.norms(s).update.nan_count == has_decay);  // 0 * inf
    x.update(s, 1);
    CHECK(bits(x.master[0]) == bits(has_decay != 0 ? nan32 : inf32));
  }
}

TEST_CASE("lamb: a tensor split anywhere has the same norms") {
  for (const bool maximize : {false, true}) {
    const StepScalars s = usual_scalars(true);
    const LambState x = random_state(2500);
    const TrustNorms whole = x.norms(s, {maximize});
    for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 1, 2500},
                                                  {0, 0, 3, 1023, 1024, 1024, 2499, 2500},
                                                  {0, 1025, 2048, 2500}}) {
      // From the last piece to the first, half of them on another rank.
      std::array<TrustNorms, 2> ranks;
      for (std::size_t i = cuts.size() - 1; i > 0; --i)
        x.add_norms(s, cuts[i - 1], cuts[i], ranks[i % 2], {maximize});
      TrustNorms sum = LambState::normalised(ranks[0]);
      const TrustNorms other = LambState::normalised(ranks[1]);
      const auto add = [](NormLimbs& to, const NormLimbs& from) {
        for (std::size_t i = 0; i < to.limbs.size(); ++i) to.limbs[i] += from.limbs[i];
        to.nan_count += from.nan_count;
        to.inf_count += from.inf_count;
      };
      add(sum.weight, other.weight);
      add(sum.update, other.update);
      CHECK(LambState::normalised(sum) == whole);
    }
  }
}

}  // namespace lamb_test
