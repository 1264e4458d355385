#include "verification/cases/pairwise/combination_table.hpp"

#include <algorithm>

#include "verification/cases/pairwise/axis.hpp"

namespace zeroproof::verification {

CombinationTable::CombinationTable() {
  std::size_t axis = 0;
  for (const Axis& one : axes()) {
    first_.push_back(num_values_);
    num_values_ += static_cast<int>(one.values.size());
    axis_.resize(num_values_, axis++);
  }
  std::size_t size = static_cast<std::size_t>(num_values_) * static_cast<std::size_t>(num_values_);
  for (const AxisGroup& group : axis_groups()) {
    first_triple_.push_back(size);
    const std::vector<std::size_t>& of = group.axes;
    for (std::size_t i = 0; i < of.size(); ++i) {
      for (std::size_t j = i + 1; j < of.size(); ++j) {
        for (std::size_t k = j + 1; k < of.size(); ++k) {
          const std::size_t second = axes()[of[j]].values.size();
          const std::size_t third = axes()[of[k]].values.size();
          triples_.push_back({{of[i], of[j], of[k]}, {second, third}, size});
          size += axes()[of[i]].values.size() * second * third;
        }
      }
    }
  }
  first_triple_.push_back(size);
  marks_.resize(size);
}

std::string CombinationTable::name_of(int number) const {
  const std::size_t axis = axis_of(number);
  const Axis& one = axes()[axis];
  return one.name + ":" + one.values[number - first_[axis]].name;
}

std::vector<int> CombinationTable::members(std::size_t combination) const {
  const auto numbers = static_cast<std::size_t>(num_values_);
  if (combination < numbers * numbers) {
    const auto a = static_cast<int>(combination / numbers);
    const auto b = static_cast<int>(combination % numbers);
    return a == b ? std::vector{a} : std::vector{a, b};
  }
  const auto after = std::ranges::upper_bound(triples_, combination, {}, &AxisTriple::first);
  const AxisTriple& triple = *(after - 1);
  const std::size_t place = combination - triple.first;
  const std::size_t each_second = place / triple.counts[1];
  return {number(triple.axes[0], static_cast<int>(each_second / triple.counts[0])),
          number(triple.axes[1], static_cast<int>(each_second % triple.counts[0])),
          number(triple.axes[2], static_cast<int>(place % triple.counts[1]))};
}

bool CombinationTable::mark(std::size_t combination) {
  std::uint8_t& mark = marks_[combination];
  const bool fresh = mark == 0;
  mark = 1;
  return fresh;
}

std::vector<int> CombinationTable::numbers_of(const std::vector<int>& values) const {
  std::vector<int> numbers;
  for (std::size_t axis = 0; axis < values.size(); ++axis) {
    if (values[axis] >= 0) numbers.push_back(number(axis, values[axis]));
  }
  return numbers;
}

bool CombinationTable::mark_all(const std::vector<int>& values, Strength strength) {
  bool fresh = false;
  const auto note = [&](std::size_t combination) { fresh = mark(combination) || fresh; };
  each(values, Strength::values, note);
  if (strength != Strength::values) each(values, strength, note);
  return fresh;
}

std::int64_t CombinationTable::marked_values() const {
  std::int64_t count = 0;
  for (int a = 0; a < num_values_; ++a) count += marked(a, a) ? 1 : 0;
  return count;
}

std::int64_t CombinationTable::marked_pairs() const {
  std::int64_t count = 0;
  for (int a = 0; a < num_values_; ++a) {
    for (int b = a + 1; b < num_values_; ++b) count += marked(a, b) ? 1 : 0;
  }
  return count;
}

std::int64_t CombinationTable::marked_triples(std::size_t group) const {
  std::int64_t count = 0;
  for (std::size_t i = first_triple_[group]; i < first_triple_[group + 1]; ++i)
    count += marked(i) ? 1 : 0;
  return count;
}

std::int64_t CombinationTable::marked_triples() const {
  std::int64_t count = 0;
  for (std::size_t group = 0; group + 1 < first_triple_.size(); ++group)
    count += marked_triples(group);
  return count;
}

}  // namespace zeroproof::verification
