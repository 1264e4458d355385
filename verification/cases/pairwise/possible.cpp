#include "verification/cases/pairwise/possible.hpp"

#include <algorithm>
#include <iterator>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

constexpr int free_steps = 2000;
constexpr int tries_of_each = 3;
constexpr int mixtures = 400;

/// The row with another value of one axis.
Wanted changed(Wanted wanted, std::size_t axis, int value) {
  wanted[axis] = value;
  return wanted;
}

}  // namespace

/// Random numbers, one after another.
class PossibleCombinations::Draw {
 public:
  explicit Draw(std::uint64_t seed) : philox_(seed, 0x436F7665) {}
  int below(int bound) {
    return static_cast<int>(philox_.below(index_++, static_cast<std::uint64_t>(bound)));
  }
  int one_of(const std::vector<int>& all) { return all[below(static_cast<int>(all.size()))]; }

 private:
  Philox philox_;
  std::uint64_t index_ = 0;
};

PossibleCombinations::PossibleCombinations(const RunSpace& space, Strength strength) {
  witness_.assign(table_.size(), -1);
  rows_with_.resize(static_cast<std::size_t>(table_.num_values()));
  const std::optional<CoveredRow> first = space.run_of(space.defaults());
  ZP_CHECK(first.has_value(), ErrorCode::config, "the defaults cannot run: " + space.refusal(),
           "covering rows are found from there", "leave out what changes them");
  meet(*first, Strength::pairs);
  walk(space, *first, free_steps, 0);
  for (int value = 0; value < table_.num_values(); ++value) walk_with(space, value);
  if (strength == Strength::values) return;
  for (int a = 0; a < table_.num_values(); ++a) {
    for (int b = a + 1; b < table_.num_values(); ++b) mix_pair(space, a, b);
  }
  if (strength == Strength::pairs) return;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    table_.each(rows_[i].values, Strength::triples, [&](std::size_t combination) {
      if (table_.mark(combination)) witness_[combination] = static_cast<int>(i);
    });
  }
  for (std::size_t triple = table_.first_triple(0); triple < table_.size(); ++triple)
    mix_triple(space, triple);
}

void PossibleCombinations::meet(const CoveredRow& row, Strength strength) {
  bool kept = false;
  const auto note = [&](std::size_t combination) {
    if (!table_.mark(combination)) return;
    if (!kept) {
      table_.each(row.values, Strength::values, [&](std::size_t value) {
        rows_with_[table_.members(value).front()].push_back(static_cast<int>(rows_.size()));
      });
      rows_.push_back(row);
    }
    kept = true;
    witness_[combination] = static_cast<int>(rows_.size()) - 1;
  };
  table_.each(row.values, Strength::values, note);
  table_.each(row.values, strength, note);
}

void PossibleCombinations::walk(const RunSpace& space, CoveredRow row, int steps,
                                std::uint64_t seed) {
  Draw draw(seed);
  for (int step = 0; step < steps; ++step) {
    const auto axis = static_cast<std::size_t>(draw.below(static_cast<int>(axes().size())));
    const int value = draw.below(static_cast<int>(axes()[axis].values.size()));
    if (row.wanted[axis] == value) continue;
    if (std::optional<CoveredRow> next = space.run_of(changed(row.wanted, axis, value))) {
      row = std::move(*next);
      meet(row, Strength::pairs);
    }
  }
}

void PossibleCombinations::walk_with(const RunSpace& space, int value) {
  Draw draw(static_cast<std::uint64_t>(value) + 1);
  const std::size_t fixed = table_.axis_of(value);
  if (!table_.marked(value, value)) return;
  CoveredRow row = witness(table_.at(value, value));
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
      meet(row, Strength::pairs);
    }
    std::erase_if(open, [&](int other) { return table_.marked(value, other); });
  }
}

/// Takes every axis from one of two runs, so that each value has the settings it needs: `quarters`
/// of 4 from the other.
std::optional<CoveredRow> PossibleCombinations::mixed(const RunSpace& space, Draw& draw,
                                                      const CoveredRow& one,
                                                      const CoveredRow& other,
                                                      Span<const int> members, int quarters) const {
  Wanted wanted = one.wanted;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    if (draw.below(4) < quarters) wanted[axis] = other.wanted[axis];
  }
  std::vector<std::pair<std::size_t, int>> needed;
  for (const int member : members) {
    const std::size_t axis = table_.axis_of(member);
    wanted[axis] = member - table_.number(axis, 0);
    needed.emplace_back(axis, wanted[axis]);
  }
  return space.run_with(wanted, needed);
}

void PossibleCombinations::mix_pair(const RunSpace& space, int a, int b) {
  if (table_.axis_of(a) == table_.axis_of(b)) return;
  if (!table_.marked(a, a) || !table_.marked(b, b)) return;
  Draw draw((static_cast<std::uint64_t>(a) << 32) + static_cast<std::uint64_t>(b));
  for (int i = 0; i < mixtures && !table_.marked(a, b); ++i) {
    const CoveredRow& one = rows_[draw.one_of(rows_with_[a])];
    const CoveredRow& other = rows_[draw.one_of(rows_with_[b])];
    if (const auto row = mixed(space, draw, one, other, std::vector{a, b}, 1 + i % 3))
      meet(*row, Strength::pairs);
  }
}

void PossibleCombinations::mix_triple(const RunSpace& space, std::size_t triple) {
  std::vector<int> members = table_.members(triple);
  for (int i = 0; i < 3; ++i) {
    if (!table_.marked(members[i], members[(i + 1) % 3])) return;
  }
  Draw draw(triple);
  for (int i = 0; i < mixtures && !table_.marked(triple); ++i) {
    std::ranges::rotate(members, members.begin() + 1);
    std::vector<int> with_two;
    std::ranges::set_intersection(rows_with_[members[0]], rows_with_[members[1]],
                                  std::back_inserter(with_two));
    const CoveredRow& one = rows_[draw.one_of(with_two)];
    const CoveredRow& other = rows_[draw.one_of(rows_with_[members[2]])];
    if (const auto row = mixed(space, draw, one, other, members, 1 + i / 3 % 3))
      meet(*row, Strength::triples);
  }
}

}  // namespace zeroproof::verification
