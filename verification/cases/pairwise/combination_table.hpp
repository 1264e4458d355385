#pragma once
// A mark for every value of every axis, for every pair of values of two axes, and for every triple
// of values of three axes of a group.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::verification {

/// What the rows of an array contain: every value, every pair, or every pair and every triple of a
/// group.
enum class Strength : std::uint8_t { values = 1, pairs = 2, triples = 3 };

/// Values of all axes in one numbering, and marks of their combinations.
class CombinationTable {
 public:
  CombinationTable();

  int num_values() const { return num_values_; }
  int number(std::size_t axis, int value) const { return first_[axis] + value; }
  std::size_t axis_of(int number) const { return axis_[number]; }
  std::string name_of(int number) const;  ///< "stage:2"

  /// Combinations are numbered too: the pairs, a value as its pair with itself, and the triples
  /// group by group.
  std::size_t size() const { return marks_.size(); }
  std::size_t at(int a, int b) const {
    const auto low = static_cast<std::size_t>(a < b ? a : b);
    const auto high = static_cast<std::size_t>(a < b ? b : a);
    return low * static_cast<std::size_t>(num_values_) + high;
  }
  /// The triples of group i: from first_triple(i) to before first_triple(i + 1).
  std::size_t first_triple(std::size_t group) const { return first_triple_[group]; }
  std::vector<int> members(std::size_t combination) const;  ///< one, two or three values

  bool marked(std::size_t combination) const { return marks_[combination] != 0; }
  bool marked(int a, int b) const { return marked(at(a, b)); }
  bool mark(std::size_t combination);  ///< true if it was not marked before

  /// Marks the values of a run (-1: none) and their combinations. True if any was not marked
  /// before.
  bool mark_all(const std::vector<int>& values, Strength strength);

  /// Calls `what` with each combination of a run's values that an array of this strength is made
  /// for: the values alone, the pairs alone, or pairs and triples.
  template <class What>
  void each(const std::vector<int>& values, Strength strength, const What& what) const {
    const std::vector<int> numbers = numbers_of(values);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (strength == Strength::values) what(at(numbers[i], numbers[i]));
      for (std::size_t j = i + 1; strength != Strength::values && j < numbers.size(); ++j)
        what(at(numbers[i], numbers[j]));
    }
    if (strength != Strength::triples) return;
    for (const AxisTriple& triple : triples_) {
      const int a = values[triple.axes[0]], b = values[triple.axes[1]], c = values[triple.axes[2]];
      if (a >= 0 && b >= 0 && c >= 0) what(triple.at(a, b, c));
    }
  }

  std::int64_t marked_values() const;
  std::int64_t marked_pairs() const;
  std::int64_t marked_triples(std::size_t group) const;
  std::int64_t marked_triples() const;  ///< of all groups

 private:
  /// Three axes of a group, and the number of the first of their triples.
  struct AxisTriple {
    std::array<std::size_t, 3> axes = {};
    std::array<std::size_t, 2> counts = {};  // values of the second and third axis
    std::size_t first = 0;
    std::size_t at(int a, int b, int c) const {
      return first +
             (static_cast<std::size_t>(a) * counts[0] + static_cast<std::size_t>(b)) * counts[1] +
             static_cast<std::size_t>(c);
    }
  };

  std::vector<int> numbers_of(const std::vector<int>& values) const;

  int num_values_ = 0;
  std::vector<int> first_;         // [axis] number of its first value
  std::vector<std::size_t> axis_;  // [number]
  std::vector<AxisTriple> triples_;
  std::vector<std::size_t> first_triple_;  // [group + 1]
  std::vector<std::uint8_t> marks_;        // [combination]
};

}  // namespace zeroproof::verification
