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
  count(elements_, shape.numel);
  if (shape.numel == 0) return;
  count(groups_["variant " + op_.variants[static_cast<std::size_t>(shape.variant)]], 1);
  count(groups_[sizes_around(shape.numel)], 1);
  count(groups_["seed " + std::to_string(shape.seed)], 1);
}

std::string DeclinedCalls::text() const {
  return std::to_string(calls_.declined) + " of " +
         std::to_string(calls_.declined + calls_.computed) + " calls were left out";
}

std::string DeclinedCalls::missing() const {
  if (elements_.computed < elements_.declined)
    return "fewer than half of the elements were judged, " + std::to_string(elements_.computed) +
           " of " + std::to_string(elements_.computed + elements_.declined);
  for (const auto& [name, count] : groups_) {
    if (count.computed == 0) return "no call of " + name + " was judged";
  }
  return {};
}

}  // namespace zeroproof::verification
