#include "verification/cases/pairwise/covering_array.hpp"

#include <algorithm>
#include <numeric>

#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

class ArrayMaker {
 public:
  ArrayMaker(const RunSpace& space, const PossibleCombinations& possible, Strength strength,
             std::uint64_t seed)
      : space_(space),
        table_(possible.table()),
        possible_(possible),
        strength_(strength),
        philox_(seed, 0x41727261),
        visited_(table_.size()) {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      const std::size_t members = table_.members(i).size();
      const bool wanted = strength == Strength::values
                              ? members == 1
                              : members > 1 && members <= static_cast<std::size_t>(strength);
      if (wanted && table_.marked(i)) open_.push_back(i);
    }
  }

  std::vector<CoveredRow> make() {
    while (!open_.empty()) {
      const std::size_t chosen = open_[below(open_.size())];
      rows_.push_back(improved(possible_.witness(chosen), table_.members(chosen)));
      each(rows_.back().values, [&](std::size_t combination) { visited_[combination] = 1; });
      std::erase_if(open_, [&](std::size_t combination) { return visited_[combination] != 0; });
    }
    drop_superfluous();
    return std::move(rows_);
  }

 private:
  template <class What>
  void each(const std::vector<int>& values, const What& what) const {
    table_.each(values, strength_, what);
  }

  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(philox_.below(index_++, static_cast<std::uint64_t>(bound)));
  }

  std::int64_t news(const std::vector<int>& values) const {
    std::int64_t count = 0;
    each(values, [&](std::size_t combination) { count += visited_[combination] == 0 ? 1 : 0; });
    return count;
  }

  /// Number of new combinations of a row with another value of one axis, if all of them are
  /// possible.
  std::int64_t hoped(const CoveredRow& row, std::size_t axis, int value) const {
    std::vector<int> values = row.values;
    values[axis] = value;
    return news(values);
  }

  /// The row, which keeps these members.
  CoveredRow improved(CoveredRow row, const std::vector<int>& members) {
    std::vector<std::size_t> order(axes().size());
    for (int pass = 0; pass < 2; ++pass) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
      for (const std::size_t axis : order) {
        const auto fixed = [&](int member) { return table_.axis_of(member) == axis; };
        if (std::ranges::none_of(members, fixed)) improve(row, axis, members);
      }
    }
    return row;
  }

  /// The best possible value of one axis; ties are resolved in order from a random value on.
  void improve(CoveredRow& row, std::size_t axis, const std::vector<int>& members) {
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
      if (!next || news(next->values) <= now) continue;
      if (!std::ranges::all_of(members, [&](int member) { return has(*next, member); })) continue;
      row = std::move(*next);
      return;
    }
  }

  bool has(const CoveredRow& row, int number) const {
    const std::size_t axis = table_.axis_of(number);
    return row.values[axis] >= 0 && table_.number(axis, row.values[axis]) == number;
  }

  /// From the last row, which visits least, to the first.
  void drop_superfluous() {
    std::vector<int> times(table_.size());
    for (const CoveredRow& row : rows_)
      each(row.values, [&](std::size_t combination) { ++times[combination]; });
    for (std::size_t i = rows_.size(); i-- > 0;) {
      bool needed = false;
      each(rows_[i].values,
           [&](std::size_t combination) { needed = needed || times[combination] == 1; });
      if (needed) continue;
      each(rows_[i].values, [&](std::size_t combination) { --times[combination]; });
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const RunSpace& space_;
  const CombinationTable& table_;
  const PossibleCombinations& possible_;
  const Strength strength_;
  Philox philox_;
  std::uint64_t index_ = 0;
  std::vector<std::uint8_t> visited_;  // [combination]
  std::vector<std::size_t> open_;      // combinations that no row has yet
  std::vector<CoveredRow> rows_;
};

}  // namespace

std::vector<CoveredRow> covering_array(const RunSpace& space, const PossibleCombinations& possible,
                                       Strength strength, std::uint64_t seed) {
  return ArrayMaker(space, possible, strength, seed).make();
}

}  // namespace zeroproof::verification
