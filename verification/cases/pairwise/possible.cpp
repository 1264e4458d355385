#include "verification/cases/pairwise/possible.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

constexpr int free_steps = 2000;
constexpr int tries_of_each = 3;
constexpr int mixtures = 400;

/// Random numbers, one after another.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : philox_(seed, 0x436F7665) {}
  int below(int bound) {
    return static_cast<int>(philox_.below(index_++, static_cast<std::uint64_t>(bound)));
  }

 private:
  Philox philox_;
  std::uint64_t index_ = 0;
};

/// The row with another value of one axis.
Wanted changed(Wanted wanted, std::size_t axis, int value) {
  wanted[axis] = value;
  return wanted;
}

}  // namespace

PossiblePairs::PossiblePairs(const RunSpace& space, Strength strength) {
  const auto numbers = static_cast<std::size_t>(table_.num_values());
  witness_.assign(numbers * numbers, -1);
  rows_with_.resize(numbers);
  const std::optional<CoveredRow> first = space.run_of(space.defaults());
  ZP_CHECK(first.has_value(), ErrorCode::config, "the defaults cannot run: " + space.refusal(),
           "covering rows are found from there", "leave out what changes them");
  meet(*first);
  walk(space, *first, free_steps, 0);
  for (int value = 0; value < table_.num_values(); ++value) walk_with(space, value);
  if (strength == Strength::values) return;
  for (int a = 0; a < table_.num_values(); ++a) {
    for (int b = a + 1; b < table_.num_values(); ++b) mix(space, a, b);
  }
}

const CoveredRow& PossiblePairs::witness(int a, int b) const {
  const std::size_t at =
      static_cast<std::size_t>(std::min(a, b)) * static_cast<std::size_t>(table_.num_values()) +
      static_cast<std::size_t>(std::max(a, b));
  return rows_[witness_[at]];
}

void PossiblePairs::meet(const CoveredRow& row) {
  const std::vector<int> numbers = table_.numbers_of(row.values);
  bool kept = false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::size_t j = i; j < numbers.size(); ++j) {
      if (!table_.mark(numbers[i], numbers[j])) continue;
      if (!kept) {
        for (const int number : numbers)
          rows_with_[number].push_back(static_cast<int>(rows_.size()));
        rows_.push_back(row);
      }
      kept = true;
      witness_[static_cast<std::size_t>(numbers[i]) *
                   static_cast<std::size_t>(table_.num_values()) +
               static_cast<std::size_t>(numbers[j])] = static_cast<int>(rows_.size()) - 1;
    }
  }
}

void PossiblePairs::walk(const RunSpace& space, CoveredRow row, int steps, std::uint64_t seed) {
  Draw draw(seed);
  for (int step = 0; step < steps; ++step) {
    const auto axis = static_cast<std::size_t>(draw.below(static_cast<int>(axes().size())));
    const int value = draw.below(static_cast<int>(axes()[axis].values.size()));
    if (row.wanted[axis] == value) continue;
    if (std::optional<CoveredRow> next = space.run_of(changed(row.wanted, axis, value))) {
      row = std::move(*next);
      meet(row);
    }
  }
}

void PossiblePairs::walk_with(const RunSpace& space, int value) {
  Draw draw(static_cast<std::uint64_t>(value) + 1);
  const std::size_t fixed = table_.axis_of(value);
  if (!table_.marked(value, value)) return;
  CoveredRow row = witness(value, value);
  std::vector<int> open;  // values not yet found with this one, each with the number of its trials
  for (int other = 0; other < table_.num_values(); ++other) {
    if (table_.axis_of(other) == fixed || table_.marked(value, other)) continue;
    open.insert(open.end(), tries_of_each, other);
  }
  while (!open.empty()) {
    // One change towards a value that has not been found, and one random change, which may remove
    // an obstacle.
    for (const bool anywhere : {false, true}) {
      if (open.empty()) break;
      int target = draw.below(table_.num_values());
      if (!anywhere) {
        const auto at = static_cast<std::size_t>(draw.below(static_cast<int>(open.size())));
        target = open[at];
        open[at] = open.back();
        open.pop_back();
      }
      const std::size_t axis = table_.axis_of(target);
      if (axis == fixed) continue;
      const Wanted wanted = changed(row.wanted, axis, target - table_.number(axis, 0));
      std::optional<CoveredRow> next = space.run_of(wanted);
      if (!next || table_.number(fixed, next->values[fixed]) != value) continue;
      row = std::move(*next);
      meet(row);
    }
    std::erase_if(open, [&](int other) { return table_.marked(value, other); });
  }
}

/// Takes every axis from one of two runs, so that each value has the settings it needs.
void PossiblePairs::mix(const RunSpace& space, int a, int b) {
  const std::size_t axis_a = table_.axis_of(a);
  const std::size_t axis_b = table_.axis_of(b);
  if (axis_a == axis_b || !table_.marked(a, a) || !table_.marked(b, b)) return;
  Draw draw((static_cast<std::uint64_t>(a) << 32) + static_cast<std::uint64_t>(b));
  const auto any_row = [&](int number) -> const CoveredRow& {
    const std::vector<int>& rows = rows_with_[number];
    return rows_[rows[draw.below(static_cast<int>(rows.size()))]];
  };
  for (int i = 0; i < mixtures && !table_.marked(a, b); ++i) {
    Wanted wanted = any_row(a).wanted;
    const Wanted other = any_row(b).wanted;
    const int of_other = 1 + i % 3;  // quarters
    for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
      if (draw.below(4) < of_other) wanted[axis] = other[axis];
    }
    wanted[axis_a] = a - table_.number(axis_a, 0);
    wanted[axis_b] = b - table_.number(axis_b, 0);
    if (const auto row =
            space.run_with(wanted, {{axis_a, wanted[axis_a]}, {axis_b, wanted[axis_b]}}))
      meet(*row);
  }
}

}  // namespace zeroproof::verification
