#include "verification/compare/limbs_hint.hpp"

#include <cmath>
#include <cstdio>

#include "verification/compare/compare.hpp"

namespace zeroproof::verification {
namespace {

constexpr int num_limbs = 21;

/// The sum in 64-bit significands: limb i has weight 2^(32 i - 352).
long double value_of_limbs(const TensorView& limbs) {
  long double sum = 0;
  for (int i = 0; i < num_limbs; ++i) {
    sum += std::ldexp(static_cast<long double>(element_bits(limbs, i)), 32 * i - 352);
  }
  return sum;
}

std::string count_text(const char* name, std::uint64_t want, std::uint64_t got) {
  if (want == got) return {};
  const bool more = got > want;
  return std::string(name) + " is " + std::to_string(more ? got - want : want - got) +
         (more ? " more" : " less") + " than expected";
}

std::string plain(long double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.7Lg", value);
  return text;
}

}  // namespace

std::string limb_name(std::int64_t word) {
  const std::int64_t limb = word % (num_limbs + 2);
  if (limb >= num_limbs) return limb == num_limbs ? "nan_count" : "inf_count";
  return "limb " + std::to_string(limb) + ", of weight 2^" + std::to_string(32 * limb - 352);
}

std::string limbs_hint(const HintEvidence& e) {
  if (e.want.numel != num_limbs + 2 || e.got.numel != num_limbs + 2) return {};
  std::string counts =
      count_text("nan_count", element_bits(e.want, num_limbs), element_bits(e.got, num_limbs));
  const std::string infinities = count_text("inf_count", element_bits(e.want, num_limbs + 1),
                                            element_bits(e.got, num_limbs + 1));
  if (!counts.empty() && !infinities.empty()) counts += ", and ";
  counts += infinities;
  if (!counts.empty()) return counts;
  const long double want = value_of_limbs(e.want);
  const long double got = value_of_limbs(e.got);
  if (want == got) return {};
  if (got == 0) return "they represent 0: nothing was counted";
  if (want == 0) return "they represent " + plain(got) + " instead of 0";
  const long double ratio = got / want;
  const std::string times = "they represent " + plain(ratio) + " times the expected sum: ";
  const long double whole = std::round(ratio);
  constexpr long double rounded = 0x1p-40L;  // relative agreement of fp64 sums of chunks
  if (whole >= 2 && std::fabs(ratio - whole) <= rounded * whole) {
    std::string names;
    for (const NamedFactor& factor : e.factors) {
      if (static_cast<long double>(factor.value) == whole)
        names += (names.empty() ? ", " : ", or ") + factor.name;
    }
    return times + "as if everything was counted " + plain(whole) + " times" + names;
  }
  if (std::fabs(ratio - 1) <= rounded)
    return "they represent nearly the expected sum: another order inside a chunk";
  return times + (ratio > 1 ? "as if a part was counted again, or an old sum was kept"
                            : "as if a part was left out");
}

}  // namespace zeroproof::verification
