#include "verification/cases/pairwise/covering_array.hpp"

#include <algorithm>
#include <numeric>

#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

class ArrayMaker {
 public:
  ArrayMaker(const RunSpace& space, const PossiblePairs& possible, Strength strength,
             std::uint64_t seed)
      : space_(space), possible_(possible), strength_(strength), philox_(seed, 0x41727261) {
    const int numbers = possible.table().num_values();
    for (int a = 0; a < numbers; ++a) {
      for (int b = a; b < numbers; ++b) {
        if (wants(a, b) && possible.table().marked(a, b)) open_.emplace_back(a, b);
      }
    }
  }

  std::vector<CoveredRow> make() {
    while (!open_.empty()) {
      const auto [a, b] = open_[below(open_.size())];
      rows_.push_back(improved(possible_.witness(a, b), a, b));
      visited_.mark_all(rows_.back().values);
      std::erase_if(open_,
                    [&](const auto& pair) { return visited_.marked(pair.first, pair.second); });
    }
    drop_superfluous();
    return std::move(rows_);
  }

 private:
  bool wants(int a, int b) const { return (a == b) == (strength_ == Strength::values); }

  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(philox_.below(index_++, static_cast<std::uint64_t>(bound)));
  }

  std::int64_t news(const std::vector<int>& values) const {
    const std::vector<int> numbers = possible_.table().numbers_of(values);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      for (std::size_t j = i; j < numbers.size(); ++j) {
        if (wants(numbers[i], numbers[j]) && !visited_.marked(numbers[i], numbers[j])) ++count;
      }
    }
    return count;
  }

  /// Number of new values and pairs of a value with the other values of a row, if all of them are
  /// possible.
  std::int64_t hoped(const CoveredRow& row, std::size_t axis, int value) const {
    std::vector<int> values = row.values;
    values[axis] = value;
    return news(values);
  }

  CoveredRow improved(CoveredRow row, int a, int b) {
    std::vector<std::size_t> order(axes().size());
    for (int pass = 0; pass < 2; ++pass) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
      for (const std::size_t axis : order) {
        if (axis != possible_.table().axis_of(a) && axis != possible_.table().axis_of(b))
          improve(row, axis, a, b);
      }
    }
    return row;
  }

  /// The best possible value of one axis; ties are resolved in order from a random value on.
  void improve(CoveredRow& row, std::size_t axis, int a, int b) {
    const auto count = static_cast<int>(axes()[axis].values.size());
    const auto begin = static_cast<int>(below(static_cast<std::size_t>(count)));
    const std::int64_t now = news(row.values);
    std::vector<std::pair<std::int64_t, int>> choices;
    for (int i = 0; i < count; ++i) {
      const int value = (begin + i) % count;
      if (value != row.wanted[axis]) choices.emplace_back(hoped(row, axis, value), value);
    }
    std::ranges::stable_sort(choices, std::ranges::greater(),
                             [](const auto& choice) { return choice.first; });
    for (const auto& [hope, value] : choices) {
      if (hope <= now) return;
      Wanted wanted = row.wanted;
      wanted[axis] = value;
      std::optional<CoveredRow> next = space_.run_of(wanted);
      if (!next || !has(*next, a) || !has(*next, b) || news(next->values) <= now) continue;
      row = std::move(*next);
      return;
    }
  }

  bool has(const CoveredRow& row, int number) const {
    const std::size_t axis = possible_.table().axis_of(number);
    return row.values[axis] >= 0 && possible_.table().number(axis, row.values[axis]) == number;
  }

  /// From the last row, which visits least, to the first.
  void drop_superfluous() {
    const auto numbers = static_cast<std::size_t>(possible_.table().num_values());
    std::vector<int> times(numbers * numbers);
    const auto each = [&](const CoveredRow& row, auto&& what) {
      const std::vector<int> of_row = possible_.table().numbers_of(row.values);
      for (std::size_t i = 0; i < of_row.size(); ++i) {
        for (std::size_t j = i; j < of_row.size(); ++j) {
          if (wants(of_row[i], of_row[j])) {
            what(times[static_cast<std::size_t>(of_row[i]) * numbers +
                       static_cast<std::size_t>(of_row[j])]);
          }
        }
      }
    };
    for (const CoveredRow& row : rows_) each(row, [](int& count) { ++count; });
    for (std::size_t i = rows_.size(); i-- > 0;) {
      bool needed = false;
      each(rows_[i], [&](int& count) { needed = needed || count == 1; });
      if (needed) continue;
      each(rows_[i], [](int& count) { --count; });
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const RunSpace& space_;
  const PossiblePairs& possible_;
  const Strength strength_;
  Philox philox_;
  std::uint64_t index_ = 0;
  PairTable visited_;
  std::vector<std::pair<int, int>> open_;
  std::vector<CoveredRow> rows_;
};

}  // namespace

std::vector<CoveredRow> covering_array(const RunSpace& space, const PossiblePairs& possible,
                                       Strength strength, std::uint64_t seed) {
  return ArrayMaker(space, possible, strength, seed).make();
}

}  // namespace zeroproof::verification
