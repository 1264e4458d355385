#include "verification/ops/declined_calls.hpp"

namespace zeroproof::verification {
namespace {

/// Sizes that a kernel's main loop, one chunk of a norm, or several chunks take (sweep()).
std::string sizes_around(std::int64_t numel) {
  if (numel < 1023) return "below 1023 elements";
  return numel <= 1025 ? "1023 to 1025 elements" : "above 1025 elements";
}

}  // namespace

void DeclinedCalls::add(const CallShape& shape, bool declined) {
  const auto count = [&](Count& one, std::int64_t number) {
    (declined ? one.declined : one.computed) += number;
  };
  count(calls_, 1);
  Seed& seed = seeds_[shape.seed];
  count(seed.elements, shape.numel);
  if (shape.numel == 0) return;
  count(seed.groups["call"], 1);
  count(seed.groups["call of variant " + op_.variants[static_cast<std::size_t>(shape.variant)]], 1);
  count(seed.groups["call of " + sizes_around(shape.numel)], 1);
}

std::string DeclinedCalls::text() const {
  return std::to_string(calls_.declined) + " of " +
         std::to_string(calls_.declined + calls_.computed) + " calls were left out";
}

std::string DeclinedCalls::missing() const {
  for (const auto& [number, seed] : seeds_) {
    const std::string with_seed = " with seed " + std::to_string(number);
    for (const auto& [name, count] : seed.groups) {
      if (count.computed == 0) return "no " + name + " was judged" + with_seed;
    }
    const auto [computed, declined] = seed.elements;
    if (computed < declined)
      return "fewer than half of the elements were judged" + with_seed + ", " +
             std::to_string(computed) + " of " + std::to_string(computed + declined);
  }
  return {};
}

}  // namespace zeroproof::verification
