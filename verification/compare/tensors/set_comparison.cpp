#include "verification/compare/tensors/set_comparison.hpp"

namespace zeroproof::verification {

void TensorTotals::add(const TensorDifference& tensor) {
  ++tensors;
  equal_tensors += tensor.equal() ? 1 : 0;
  unmatched_tensors += tensor.match == TensorMatch::compared ? 0 : 1;
  compared += tensor.bits.compared;
  differing += tensor.bits.differing;
  same_bits = same_bits && tensor.bits.same_bits;
  for (std::size_t i = 0; i < ulps.counts.size(); ++i) ulps.counts[i] += tensor.ulps.counts[i];
  ulps.sign_or_nan += tensor.ulps.sign_or_nan;
  if (tensor.ulps.largest > ulps.largest) {
    ulps.largest = tensor.ulps.largest;
    ulps.largest_index = tensor.ulps.largest_index;
    largest_ulp = tensor.name;
  }
  const auto take = [&](GreatestOf& target, const Greatest& from) {
    if (from.index >= 0 && target.greatest.take(from.value, from.index))
      target.tensor = tensor.name;
  };
  take(absolute, tensor.absolute);
  take(relative, tensor.relative);
}

std::vector<TensorPair> pairs_by_name(const SafetensorsHeader& first,
                                      const SafetensorsHeader& second) {
  std::vector<TensorPair> pairs;
  std::size_t i = 0, j = 0;
  while (i < first.by_name.size() || j < second.by_name.size()) {
    const SafeTensor* a = i < first.by_name.size() ? &first.tensors[first.by_name[i]] : nullptr;
    const SafeTensor* b = j < second.by_name.size() ? &second.tensors[second.by_name[j]] : nullptr;
    if (a != nullptr && b != nullptr && a->name != b->name) (a->name < b->name ? b : a) = nullptr;
    pairs.push_back({a != nullptr ? a->name : b->name, a, b});
    i += a != nullptr ? 1 : 0;
    j += b != nullptr ? 1 : 0;
  }
  return pairs;
}

SetComparison compare_sets(const SafetensorsReader& first, const SafetensorsReader& second,
                           const std::vector<TensorPair>& pairs) {
  SetComparison result;
  for (const TensorPair& pair : pairs) {
    result.tensors.push_back(compare_tensors(pair.name, first, pair.first, second, pair.second));
    result.totals.add(result.tensors.back());
  }
  return result;
}

}  // namespace zeroproof::verification
