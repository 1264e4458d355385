#include <algorithm>

#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"

namespace zeroproof::verification {
namespace {

/// The positive side, then the negative one.
constexpr std::size_t dot_words = 2 * limb_words;

DotLimbs get_sides(Span<const std::uint64_t> words) {
  return {get_limbs(words.first(limb_words)), get_limbs(words.subspan(limb_words, limb_words))};
}

void put_sides(const DotLimbs& limbs, Span<std::uint64_t> words) {
  put_limbs(limbs.positive, words.first(limb_words));
  put_limbs(limbs.negative, words.subspan(limb_words, limb_words));
}

/// Limbs that differ from the other side, so that exchanged sides are detected.
DotLimbs initial_sides(int variant) {
  DotLimbs limbs{initial_limbs(variant), initial_limbs(variant)};
  if (variant != 1) return limbs;
  std::reverse(limbs.negative.limbs.begin(), limbs.negative.limbs.end());
  limbs.negative.inf_count = 1;
  return limbs;
}

OpFunction run_dot_accumulate(DotAccumulateFn* implementation, DotNormaliseFn* normalise) {
  return [=](OpCall& call) {
    const Span<const float> left = call.in<float>(0);
    const Span<const float> right = call.in<float>(call.variant() == 3 ? 0 : 1);
    DotLimbs limbs = initial_sides(call.variant());
    const std::size_t cut = call.variant() == 2 ? left.size() / 3 : 0;
    if (cut > 0) implementation(call.exec, left.first(cut), right.first(cut), limbs);
    implementation(call.exec, left.subspan(cut), right.subspan(cut), limbs);
    normalise(limbs);  // carries are free before
    put_sides(limbs, call.get<std::uint64_t>(2));
  };
}

OpFunction run_normalise(DotNormaliseFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const Span<std::uint64_t> words =
          call.get<std::uint64_t>(0).subspan(i * dot_words, dot_words);
      DotLimbs limbs = get_sides(words);
      implementation(limbs);
      put_sides(limbs, words);
    }
  };
}

OpFunction run_finish(DotFinishFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      call.get<double>(1)[i] =
          implementation(get_sides(call.in<std::uint64_t>(0).subspan(i * dot_words, dot_words)));
    }
  };
}

/// Makes the negative side nearly equal to the positive one: equal values with other carries, or
/// one bit apart, so that borrows propagate far.
void make_close(const PhiloxBlock& w, Span<std::uint64_t> positive, Span<std::uint64_t> negative) {
  std::copy_n(positive.begin(), 21, negative.begin());
  for (std::size_t k = 0; w[2] % 2U == 0 && k < 20; ++k) {
    negative[k + 1] += negative[k] >> 32;
    negative[k] &= 0xFFFFFFFFU;
  }
  if (w[0] % 4U == 1) negative[w[1] % 21U] ^= 1U;
}

/// Two sides at any height that are equal, close, far apart, or of which one is empty: operand 0.
void draw_sides(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const Span<std::uint64_t> words =
        call.get<std::uint64_t>(0).subspan(static_cast<std::size_t>(i) * dot_words, dot_words);
    const Span<std::uint64_t> positive = words.first(limb_words);
    const Span<std::uint64_t> negative = words.subspan(limb_words, limb_words);
    draw_limb_set(call, i, 0, positive);
    draw_limb_set(call, i, limb_words + 1, negative);
    negative[21] = 0;  // a NaN has no sign and is counted on the other side
    const PhiloxBlock w = call.words(0, i, 2 * (limb_words + 1));
    if (w[0] % 4U < 2) make_close(w, positive, negative);
    if (w[0] % 4U == 2) std::fill_n(negative.begin(), 21, 0U);
    if (w[3] % 2U == 0) std::swap_ranges(positive.begin(), positive.begin() + 21, negative.begin());
  }
}

}  // namespace

std::vector<Op> dot_ops() {
  Op accumulate;
  accumulate.name = "dot_accumulate";
  accumulate.contract = "dot.hpp";
  accumulate.type = "DotAccumulateFn";
  accumulate.exactness = Exactness::integer;
  accumulate.variants = {"from zero", "onto something", "two pieces", "one view"};
  accumulate.operands = {input("left"), input("right"),
                         fixed(output("limbs", DType::u64), dot_words)};
  accumulate.fills = number_fills();
  accumulate.reference = run_dot_accumulate(reference::dot_accumulate, reference::dot_normalise);
  accumulate.host = run_dot_accumulate(cuda::host::dot_accumulate, cuda::host::dot_normalise);

  Op normalise;
  normalise.name = "dot_normalise";
  normalise.contract = "dot.hpp";
  normalise.type = "DotNormaliseFn";
  normalise.exactness = Exactness::integer;
  normalise.operands = {per_element(in_place("limbs", Content::given, DType::u64), dot_words)};
  normalise.fills = {Fill::sweep};
  normalise.largest = 4097;
  normalise.generate = draw_sides;
  normalise.reference = run_normalise(reference::dot_normalise);
  normalise.host = run_normalise(cuda::host::dot_normalise);

  Op finish = normalise;
  finish.name = "dot_finish";
  finish.type = "DotFinishFn";
  finish.exactness = Exactness::bitwise;
  finish.operands = {per_element(input("limbs", Content::given, DType::u64), dot_words),
                     output("dot", DType::fp64)};
  finish.reference = run_finish(reference::dot_finish);
  finish.host = run_finish(cuda::host::dot_finish);
  return {accumulate, normalise, finish};
}

}  // namespace zeroproof::verification
