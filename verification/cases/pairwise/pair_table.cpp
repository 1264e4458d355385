#include "verification/cases/pairwise/pair_table.hpp"

#include "verification/cases/pairwise/axis.hpp"

namespace zeroproof::verification {

PairTable::PairTable() {
  std::size_t axis = 0;
  for (const Axis& one : axes()) {
    first_.push_back(num_values_);
    num_values_ += static_cast<int>(one.values.size());
    axis_.resize(num_values_, axis++);
  }
  marks_.resize(static_cast<std::size_t>(num_values_) * static_cast<std::size_t>(num_values_));
}

std::string PairTable::name_of(int number) const {
  const std::size_t axis = axis_of(number);
  const Axis& one = axes()[axis];
  return one.name + ":" + one.values[number - first_[axis]].name;
}

bool PairTable::mark(int a, int b) {
  std::uint8_t& mark = marks_[at(a, b)];
  const bool fresh = mark == 0;
  mark = 1;
  return fresh;
}

std::vector<int> PairTable::numbers_of(const std::vector<int>& values) const {
  std::vector<int> numbers;
  for (std::size_t axis = 0; axis < values.size(); ++axis) {
    if (values[axis] >= 0) numbers.push_back(number(axis, values[axis]));
  }
  return numbers;
}

bool PairTable::mark_all(const std::vector<int>& values) {
  const std::vector<int> numbers = numbers_of(values);
  bool fresh = false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::size_t j = i; j < numbers.size(); ++j) fresh = mark(numbers[i], numbers[j]) || fresh;
  }
  return fresh;
}

std::int64_t PairTable::marked_values() const {
  std::int64_t count = 0;
  for (int a = 0; a < num_values_; ++a) count += marked(a, a) ? 1 : 0;
  return count;
}

std::int64_t PairTable::marked_pairs() const {
  std::int64_t count = 0;
  for (int a = 0; a < num_values_; ++a) {
    for (int b = a + 1; b < num_values_; ++b) count += marked(a, b) ? 1 : 0;
  }
  return count;
}

}  // namespace zeroproof::verification
