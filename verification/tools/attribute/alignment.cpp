#include "verification/tools/attribute/alignment.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace zeroproof::verification {
namespace {

/// Operations that have to agree after an edit, so that repeated layers are not paired with their neighbours.
constexpr std::int64_t agreeing_operations = 8;
constexpr std::int64_t most_edits = 2000;

/// "f32[2,3] strides [1,2]" -> "[2,3]".
std::string_view shape_in(const std::string& text) {
  const std::size_t begin = std::min(text.find('['), text.size());
  return std::string_view(text).substr(begin, text.find(']', begin) - begin);
}

using OperationKeys = std::vector<std::uint32_t>;

/// Equal numbers for operations that may be paired.
class KeyTable {
 public:
  OperationKeys keys(const std::vector<Operation>& operations) {
    OperationKeys result;
    result.reserve(operations.size());
    for (const Operation& one : operations) {
      std::string text = one.name + ' ' + one.phase;
      for (const OperationValue& input : one.inputs) {
        if (input.is_tensor) text.append(1, ' ').append(shape_in(input.text));
      }
      result.push_back(
          numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(numbers_.size()))
              .first->second);
    }
    return result;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

/// The shortest edit from one position.
class EditSearch {
 public:
  EditSearch(const OperationKeys& before, const OperationKeys& after, std::int64_t i,
             std::int64_t j)
      : before_(before),
        after_(after),
        i_(i),
        j_(j),
        n_(static_cast<std::int64_t>(before.size()) - i),
        m_(static_cast<std::int64_t>(after.size()) - j) {}

  /// Steps of the edit: 'o' an old operation alone, 'n' a new one alone, '=' a pair. Empty: none was found.
  std::string steps() {
    std::vector<std::int64_t> furthest = {0};  // x on the diagonals -d, -d + 2, ..., d
    for (std::int64_t d = 1; d <= std::min(most_edits, n_ + m_); ++d) {
      std::vector<std::int64_t> next(static_cast<std::size_t>(d) + 1, -1);
      for (std::int64_t at = 0; at <= d; ++at) {
        const std::int64_t k = 2 * at - d;
        // From the diagonal below by an old operation, from the one above by a new one.
        const std::int64_t old_step = at > 0 ? furthest[static_cast<std::size_t>(at - 1)] : -1;
        const std::int64_t new_step = at < d ? furthest[static_cast<std::size_t>(at)] : -1;
        std::int64_t x = -1;
        if (old_step >= 0 && old_step < n_) x = old_step + 1;
        if (new_step >= 0 && new_step - (k + 1) < m_) x = std::max(x, new_step);
        if (x < 0 || x - k > m_ || x - k < 0) continue;
        const std::int64_t begin = x;
        while (x < n_ && x - k < m_ && equal(x, x - k)) ++x;
        next[static_cast<std::size_t>(at)] = x;
        if (x - begin >= agreeing_operations || (x == n_ && x - k == m_)) {
          layers_.push_back(std::move(furthest));
          return back(d, at, x);
        }
      }
      layers_.push_back(std::move(furthest));
      furthest = std::move(next);
    }
    return "";
  }

 private:
  bool equal(std::int64_t x, std::int64_t y) const {
    return before_[static_cast<std::size_t>(i_ + x)] == after_[static_cast<std::size_t>(j_ + y)];
  }

  std::string back(std::int64_t d, std::int64_t at, std::int64_t x) const {
    std::string reversed;
    for (; d > 0; --d) {
      const std::vector<std::int64_t>& before = layers_[static_cast<std::size_t>(d - 1)];
      const std::int64_t k = 2 * at - d;
      const std::int64_t old_step = at > 0 ? before[static_cast<std::size_t>(at - 1)] : -1;
      const std::int64_t new_step = at < d ? before[static_cast<std::size_t>(at)] : -1;
      const std::int64_t by_old = old_step >= 0 && old_step < n_ ? old_step + 1 : -1;
      const std::int64_t by_new = new_step >= 0 && new_step - (k + 1) < m_ ? new_step : -1;
      const std::int64_t begin = std::max(by_old, by_new);
      reversed.append(static_cast<std::size_t>(x - begin), '=');
      if (begin == by_old) {
        reversed += 'o';
        x = old_step;
        --at;
      } else {
        reversed += 'n';
        x = new_step;
      }
    }
    reversed.append(static_cast<std::size_t>(x), '=');
    std::ranges::reverse(reversed);
    return reversed;
  }

  const OperationKeys &before_, &after_;
  std::int64_t i_, j_, n_, m_;
  std::vector<std::vector<std::int64_t>> layers_;
};

}  // namespace

std::vector<AlignedRow> align(const std::vector<Operation>& before,
                              const std::vector<Operation>& after) {
  KeyTable table;
  const OperationKeys olds = table.keys(before), news = table.keys(after);
  std::vector<AlignedRow> rows;
  std::size_t i = 0, j = 0;
  const auto apply = [&](char step) {
    AlignedRow row;
    if (step != 'n') row.before = i++;
    if (step != 'o') row.after = j++;
    rows.push_back(row);
  };
  while (i < olds.size() && j < news.size()) {
    if (olds[i] == news[j]) {
      apply('=');
      continue;
    }
    const std::string steps =
        EditSearch(olds, news, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)).steps();
    if (steps.empty()) break;
    for (const char step : steps) apply(step);
  }
  while (i < olds.size()) apply('o');
  while (j < news.size()) apply('n');
  return rows;
}

bool ValuePair::same() const {
  return before != nullptr && after != nullptr && before->text == after->text && !other_bits();
}

bool ValuePair::other_bits() const {
  return before != nullptr && after != nullptr && before->digest && after->digest &&
         *before->digest != *after->digest;
}

std::vector<ValuePair> pair_values(const std::vector<OperationValue>& before,
                                   const std::vector<OperationValue>& after) {
  std::vector<ValuePair> pairs;
  pairs.reserve(std::max(before.size(), after.size()));
  std::size_t j = 0;
  for (const OperationValue& one : before) {
    // Both are in the order of the operation's parameters; an option with its default value is left out.
    std::size_t at = j;
    while (at < after.size() && after[at].name != one.name) ++at;
    if (at == after.size()) {
      pairs.push_back({&one, nullptr});
      continue;
    }
    for (; j < at; ++j) pairs.push_back({nullptr, &after[j]});
    pairs.push_back({&one, &after[j++]});
  }
  for (; j < after.size(); ++j) pairs.push_back({nullptr, &after[j]});
  return pairs;
}

}  // namespace zeroproof::verification
