#pragma once
// A mark for every value of every axis, and for every pair of values of two axes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::verification {

/// Values of all axes in one numbering, and marks of them (the pair of a value with itself) and of their pairs.
class PairTable {
 public:
  PairTable();

  int num_values() const { return num_values_; }
  int number(std::size_t axis, int value) const { return first_[axis] + value; }
  std::size_t axis_of(int number) const { return axis_[number]; }
  std::string name_of(int number) const;  ///< "stage:2"

  bool marked(int a, int b) const { return marks_[at(a, b)] != 0; }
  bool mark(int a, int b);  ///< true if it was not marked before

  /// Marks the values of a run (-1: none) and their pairs. True if any was not marked before.
  bool mark_all(const std::vector<int>& values);

  /// The numbers of a run's values.
  std::vector<int> numbers_of(const std::vector<int>& values) const;

  std::int64_t marked_values() const;
  std::int64_t marked_pairs() const;

 private:
  std::size_t at(int a, int b) const {
    const auto low = static_cast<std::size_t>(a < b ? a : b);
    const auto high = static_cast<std::size_t>(a < b ? b : a);
    return low * static_cast<std::size_t>(num_values_) + high;
  }

  int num_values_ = 0;
  std::vector<int> first_;           // [axis] number of its first value
  std::vector<std::size_t> axis_;    // [number]
  std::vector<std::uint8_t> marks_;  // [number][number], the lower one first
};

}  // namespace zeroproof::verification
