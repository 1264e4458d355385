#include "verification/tools/attribute/attribution.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"

namespace zeroproof::verification {
namespace {

using Writer = OperationValue::Writer;

bool all_same(const std::vector<OperationValue>& a, const std::vector<OperationValue>& b) {
  return std::ranges::all_of(pair_values(a, b), &ValuePair::same);
}

bool any_compared(const std::vector<OperationValue>& values) {
  return std::ranges::any_of(
      values, [](const OperationValue& one) { return one.digest || !one.is_tensor; });
}

bool any_pair_compared(const std::vector<OperationValue>& a, const std::vector<OperationValue>& b) {
  return std::ranges::any_of(pair_values(a, b), [](const ValuePair& pair) {
    return pair.before == nullptr || pair.after == nullptr || !pair.before->is_tensor ||
           !pair.after->is_tensor || (pair.before->digest && pair.after->digest) ||
           (pair.before->text != pair.after->text && (pair.before->digest || pair.after->digest));
  });
}

/// Whether an input has no digest although its values matter.
bool reads_uncompared(const Operation& operation) {
  return std::ranges::any_of(operation.inputs, &OperationValue::uncompared);
}

bool is_view(const Operation& operation) { return !any_compared(operation.outputs); }

bool is_random(const Operation& operation) {
  return std::ranges::any_of(operation.inputs,
                             [](const OperationValue& one) { return one.name == "random state"; });
}

bool is_collective(const Operation& operation) {
  return operation.name.starts_with("c10d") || operation.name.starts_with("_c10d");
}

bool on_gpu(const Operation& operation) {
  return std::ranges::any_of(operation.outputs, [](const OperationValue& one) {
    return one.text.ends_with(" cuda") || one.text.ends_with(" hip");
  });
}

std::string arrow(const std::string& from, const std::string& to) { return from + " -> " + to; }

std::string counted(std::size_t count, const std::string& thing) {
  return std::to_string(count) + ' ' + thing + (count == 1 ? "" : "s");
}

/// "the initial parameters"; "the data".
std::string shown_writer(Writer writer) {
  return writer == Writer::parameter ? "initial parameters" : "data";
}

/// Compares two recordings of a rank.
class Attributor {
 public:
  Attributor(const OperationsFile& before, const OperationsFile& after)
      : old_(before), new_(after), rows_(align(before.operations, after.operations)) {
    row_of_old_.resize(old_.operations.size());
    row_of_new_.resize(new_.operations.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].before) row_of_old_[*rows_[row].before] = row;
      if (rows_[row].after) row_of_new_[*rows_[row].after] = row;
    }
  }

  Attribution run() {
    count();
    check_same_program();
    find_origin();
    decide();
    return std::move(result_);
  }

 private:
  const Operation& old_at(std::size_t row) const { return old_.operations[*rows_[row].before]; }
  const Operation& new_at(std::size_t row) const { return new_.operations[*rows_[row].after]; }

  void count() {
    RowCounts& counts = result_.counts;
    std::map<std::string, std::int64_t> others;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (!rows_[row].is_pair()) {
        ++(rows_[row].before ? counts.only_old : counts.only_new);
        continue;
      }
      const Operation &a = old_at(row), &b = new_at(row);
      const bool inputs = all_same(a.inputs, b.inputs), outputs = all_same(a.outputs, b.outputs);
      if (!inputs && outputs && !first_quiet_) first_quiet_ = row;
      const bool compared = any_pair_compared(a.outputs, b.outputs);
      if (!first_ && ((compared && !outputs) ||
                      std::ranges::any_of(pair_values(a.inputs, b.inputs), &ValuePair::other_bits)))
        first_ = row;
      if (!compared) {
        ++counts.views;
        if (reads_uncompared(a) || reads_uncompared(b)) ++uncompared_;
      } else if (outputs) {
        ++counts.agree;
      } else if (inputs) {
        ++counts.own;
        if (first_ != row) ++others[short_name(a.name)];
      } else {
        ++counts.inherit;
      }
    }
    result_.others.assign(others.begin(), others.end());
    std::ranges::stable_sort(result_.others, std::greater<>(),
                             &std::pair<std::string, std::int64_t>::second);
  }

  void check_same_program() const {
    const std::size_t pairs =
        rows_.size() - static_cast<std::size_t>(result_.counts.only_old + result_.counts.only_new);
    const std::size_t shorter = std::min(old_.operations.size(), new_.operations.size());
    if (2 * pairs >= shorter) return;
    std::string first;
    for (const AlignedRow& row : rows_) {
      if (row.is_pair()) continue;
      const Operation& one =
          row.before ? old_.operations[*row.before] : new_.operations[*row.after];
      first = "; the first is " + one.name;
      for (const OperationValue& input : one.inputs) {
        if (input.is_tensor) first += ' ' + input.text;
      }
      first += row.before ? " of OLD" : " of NEW";
      break;
    }
    fail(ErrorCode::config,
         old_.path + " and " + new_.path + " have " + counted(pairs, "operation") +
             " in common of " + std::to_string(shorter) + sentence(first),
         "they are of other programs or models",
         "record the same model with the same sizes of batches");
  }

  // -- the first difference ------------------------------------------------------------------------------------------

  void find_origin() {
    Origin& origin = result_.origin;
    if (!first_) {
      lone_operations();
      return;
    }
    origin.before = rows_[*first_].before;
    origin.after = rows_[*first_].after;
    const Operation &a = old_at(*first_), &b = new_at(*first_);
    if (all_same(a.inputs, b.inputs)) {
      origin.kind = OriginKind::kernel;
      origin.what = a.name + " computes other bits from the same inputs";
      return;
    }
    // Of several inputs the one whose difference says most.
    std::optional<Origin> best;
    for (const ValuePair& pair : pair_values(a.inputs, b.inputs)) {
      if (pair.same()) continue;
      const Origin found = of_input(a, pair);
      if (!best || rank(found.kind) < rank(best->kind)) best = found;
    }
    best->before = origin.before;
    best->after = origin.after;
    origin = *best;
  }

  static int rank(OriginKind kind) {
    constexpr std::array order = {
        OriginKind::replaced,   OriginKind::random,  OriginKind::argument, OriginKind::wiring,
        OriginKind::collective, OriginKind::outside, OriginKind::memory};
    return static_cast<int>(std::ranges::find(order, kind) - order.begin());
  }

  static Origin made(OriginKind kind, std::string what) {
    return {kind, {}, {}, {}, {}, std::move(what)};
  }

  Origin of_input(const Operation& reader, const ValuePair& pair) const {
    if (pair.before == nullptr || pair.after == nullptr ||
        pair.before->is_tensor != pair.after->is_tensor || !pair.before->is_tensor) {
      const std::string name = pair.before != nullptr ? pair.before->name : pair.after->name;
      if (name == "random state") return of_random();
      return made(OriginKind::argument,
                  "argument " + name + " of " + short_name(reader.name) + ": " +
                      arrow(pair.before != nullptr ? pair.before->text : "(default)",
                            pair.after != nullptr ? pair.after->text : "(default)"));
    }
    const OperationValue &a = *pair.before, &b = *pair.after;
    const std::string where = "input " + a.name + " of " + short_name(reader.name);
    if (const std::optional<Origin> gap = of_writers(a, b)) return *gap;
    if (a.text != b.text) return made(OriginKind::argument, where + ": " + arrow(a.text, b.text));
    if (a.writer == Writer::outside && b.writer == Writer::outside) {
      if (const std::string collective = just_before(); !collective.empty())
        return of_collective(collective);
    }
    if (a.writer != Writer::operation && b.writer != Writer::operation)
      return made(OriginKind::outside,
                  shown_writer(b.writer) + ": " + where + ' ' + b.text + order_of(a, b));
    if (a.writer != b.writer || row_of_old_[a.operation] != row_of_new_[b.operation])
      return made(OriginKind::wiring, where + " reads another result: " +
                                          arrow(shown_source(old_, a), shown_source(new_, b)));
    const Operation& writer = old_.operations[a.operation];
    if (is_collective(writer)) return of_collective(writer.name);
    const bool read_as_written = wrote(writer, a) && !wrote(new_.operations[b.operation], b);
    if (const auto view = of_views(a, b); view && !read_as_written) return *view;
    return made(OriginKind::memory, where + " was changed after " + shown_source(old_, a) +
                                        " by something that is no recorded operation");
  }

  static std::string shown_source(const OperationsFile& file, const OperationValue& value) {
    if (value.writer != Writer::operation) return shown_writer(value.writer);
    return short_name(file.operations[value.operation].name) + " #" +
           std::to_string(value.operation);
  }

  static Origin of_collective(const std::string& name) {
    return made(OriginKind::collective,
                "the result of " + name + ", which other ranks or the library made");
  }

  /// A collective a few rows above the first difference: gloo copies its results out of buffers that it alone knows.
  std::string just_before() const {
    constexpr std::size_t most_rows_between = 4;
    for (std::size_t i = 1; i <= std::min(most_rows_between, *first_); ++i) {
      const AlignedRow& row = rows_[*first_ - i];
      if (row.before && is_collective(old_.operations[*row.before]))
        return old_.operations[*row.before].name;
    }
    return "";
  }

  /// Operations of one side alone that wrote an input, or lie between its writer and its reader as views do.
  std::optional<Origin> of_writers(const OperationValue& a, const OperationValue& b) const {
    const bool old_alone =
        a.writer == Writer::operation && !rows_[row_of_old_[a.operation]].is_pair();
    const bool new_alone =
        b.writer == Writer::operation && !rows_[row_of_new_[b.operation]].is_pair();
    if (old_alone || new_alone)
      return gap_at(old_alone ? row_of_old_[a.operation] : row_of_new_[b.operation]);
    if (*first_ > 0 && !rows_[*first_ - 1].is_pair() && a.text != b.text)
      return gap_at(*first_ - 1);
    return std::nullopt;
  }

  /// A view of the memory, between its writer and the first difference, that has other arguments or is of one side alone.
  std::optional<Origin> of_views(const OperationValue& a, const OperationValue& b) const {
    for (std::size_t row = row_of_old_[a.operation] + 1; row < *first_; ++row) {
      if (!rows_[row].is_pair()) {
        const Operation& one = rows_[row].before ? old_at(row) : new_at(row);
        const std::size_t writer = rows_[row].before ? a.operation : b.operation;
        if (is_view(one) && reads(one, writer)) return gap_at(row);
      } else if (is_view(old_at(row)) && reads(old_at(row), a.operation)) {
        for (const ValuePair& pair : pair_values(old_at(row).inputs, new_at(row).inputs)) {
          if (!pair.same()) return of_input(old_at(row), pair);
        }
      }
    }
    return std::nullopt;
  }

  /// Whether an operation has an output with these bits.
  static bool wrote(const Operation& operation, const OperationValue& value) {
    return std::ranges::any_of(operation.outputs, [&](const OperationValue& one) {
      return one.text == value.text && one.digest && one.digest == value.digest;
    });
  }

  static bool reads(const Operation& operation, std::size_t writer) {
    return std::ranges::any_of(operation.inputs, [&](const OperationValue& one) {
      return one.writer == Writer::operation && one.operation == writer;
    });
  }

  /// All rows of one side alone around a row, with pairs of up to two views between them.
  Origin gap_at(std::size_t row) const {
    const auto extend = [&](std::size_t from, int step) {
      std::size_t last = from;
      std::size_t views = 0;
      for (std::size_t at = from; views <= 2; at += static_cast<std::size_t>(step)) {
        if (!rows_[at].is_pair()) {
          last = at;
          views = 0;
        } else if (is_view(old_at(at))) {
          ++views;
        } else {
          break;
        }
        if (step < 0 ? at == 0 : at + 1 == rows_.size()) break;
      }
      return last;
    };
    Origin origin = made(OriginKind::replaced, "");
    const std::size_t end = extend(row, 1);
    for (std::size_t at = extend(row, -1); at <= end; ++at) {
      if (rows_[at].is_pair()) continue;
      if (rows_[at].before) origin.removed.push_back(*rows_[at].before);
      if (rows_[at].after) origin.inserted.push_back(*rows_[at].after);
    }
    const std::string olds = listed(old_, origin.removed), news = listed(new_, origin.inserted);
    origin.what = news.empty()   ? "operation removed: " + olds
                  : olds.empty() ? "operation inserted: " + news
                                 : "operation replaced: " + arrow(olds, news);
    return origin;
  }

  /// "aten.mm + aten.add (2)"; views only if there is nothing else.
  static std::string listed(const OperationsFile& file,
                            const std::vector<std::size_t>& operations) {
    constexpr std::size_t most = 4;
    std::vector<std::pair<std::string, std::int64_t>>
        names;  // in the order of their first operation
    for (const bool views : {false, true}) {
      for (const std::size_t one : operations) {
        if (!views && is_view(file.operations[one])) continue;
        const std::string name = short_name(file.operations[one].name);
        const auto found =
            std::ranges::find(names, name, &std::pair<std::string, std::int64_t>::first);
        if (found == names.end()) {
          names.emplace_back(name, 1);
        } else {
          ++found->second;
        }
      }
      if (!names.empty()) break;
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
      text += (i == 0 ? "" : " + ") + names[i].first;
      if (names[i].second > 1) text += " (" + std::to_string(names[i].second) + ")";
    }
    if (names.size() > most) text += " + " + std::to_string(names.size() - most) + " others";
    return text;
  }

  Origin of_random() const {
    for (std::size_t row = 0; row < *first_; ++row) {
      if (rows_[row].is_pair()) continue;
      const Operation& one = rows_[row].before ? old_.operations[*rows_[row].before]
                                               : new_.operations[*rows_[row].after];
      if (is_random(one)) return gap_at(row);
    }
    return made(OriginKind::random, old_.seed != new_.seed
                                        ? "seed " + arrow(old_.seed, new_.seed)
                                        : "the state of the random generator, with the seed " +
                                              old_.seed + " on both sides");
  }

  /// Whether a digest that came from outside is one of the other recording, at another place.
  std::string order_of(const OperationValue& a, const OperationValue& b) const {
    const auto found = [](const OperationsFile& file, const OperationValue& value) {
      for (std::size_t i = 0; i < file.operations.size(); ++i) {
        for (const OperationValue& input : file.operations[i].inputs) {
          if (input.writer != Writer::operation && input.digest == value.digest &&
              input.text == value.text && input.digest)
            return std::optional<std::size_t>(i);
        }
      }
      return std::optional<std::size_t>();
    };
    const auto in_old = found(old_, b), in_new = found(new_, a);
    if (!in_old && !in_new) return "";
    std::string text = ", in another order:";
    if (in_old) text += " it is OLD's at operation #" + std::to_string(*in_old);
    if (in_new)
      text += std::string(in_old ? "," : "") + " OLD's is at operation #" +
              std::to_string(*in_new) + " of NEW";
    return text;
  }

  /// No pair differs: operations of one side alone, or nothing. Views alone change no bits.
  void lone_operations() {
    Origin& origin = result_.origin;
    const auto lone = std::ranges::find_if(rows_, [&](const AlignedRow& row) {
      return !row.is_pair() &&
             !is_view(row.before ? old_.operations[*row.before] : new_.operations[*row.after]);
    });
    if (lone == rows_.end()) {
      if (result_.counts.only_old + result_.counts.only_new > 0)
        result_.remark = "operations of one side alone are views, which compute nothing";
      if (first_quiet_) quiet_arguments();
      return;
    }
    const bool tail = std::all_of(lone, rows_.end(), [&](const AlignedRow& row) {
      return !row.is_pair() && row.before.has_value() == lone->before.has_value();
    });
    const auto row = static_cast<std::size_t>(lone - rows_.begin());
    if (tail) {
      const OperationsFile& shorter = lone->before ? new_ : old_;
      origin = made(OriginKind::length,
                    std::string(lone->before ? "NEW" : "OLD") + " ends after " +
                        counted(shorter.operations.size(), "operation") +
                        (shorter.ends_early.empty() ? "" : ": " + shorter.ends_early));
    } else {
      origin = gap_at(row);
      result_.remark = "no result of an operation that both have differs";
    }
    origin.before = lone->before;
    origin.after = lone->after;
  }

  void quiet_arguments() {
    const Operation &a = old_at(*first_quiet_), &b = new_at(*first_quiet_);
    for (const ValuePair& pair : pair_values(a.inputs, b.inputs)) {
      if (pair.same() || is_view(a)) continue;
      result_.remark = of_input(a, pair).what + ", with the same results";
      return;
    }
  }

  // -- the cause -----------------------------------------------------------------------------------------------------

  static std::string line_text(const OperationsFile& file, std::optional<std::size_t> operation) {
    if (!operation || !file.operations[*operation].line) return "";
    return file.lines[*file.operations[*operation].line].text;
  }

  /// The package that has the line: ".../site-packages/NAME/...".
  static std::string package_of(const OperationsFile& file, std::optional<std::size_t> operation) {
    if (!operation || !file.operations[*operation].line) return "";
    const std::string& path = file.lines[*file.operations[*operation].line].file;
    for (const std::string folder : {"site-packages/", "dist-packages/"}) {
      const std::size_t at = path.rfind(folder);
      if (at == std::string::npos) continue;
      const std::string rest = path.substr(at + folder.size());
      return rest.substr(0, rest.find('/'));
    }
    return "";
  }

  void decide() {
    Origin& origin = result_.origin;
    result_.differences =
        environment_differences(old_, new_, origin.before.value_or(0), origin.after.value_or(0),
                                origin.before && on_gpu(old_.operations[*origin.before]));
    if (origin.kind == OriginKind::none) {
      if (uncompared_ > 0)
        result_.remark += (result_.remark.empty() ? "" : "; ") + counted(uncompared_, "operation") +
                          " with inputs that are not compared (memory that no operation has "
                          "written, sparse or quantized tensors)";
      if (old_.ends_early.empty() && new_.ends_early.empty()) return;
      origin = made(OriginKind::length, old_.ends_early.empty() ? "NEW: " + new_.ends_early
                                                                : "OLD: " + old_.ends_early);
    }
    result_.verdict = AttributionVerdict::regression;
    result_.cause = origin.what;
    switch (origin.kind) {
      case OriginKind::kernel:
        decide_kernel();
        return;
      case OriginKind::replaced:
      case OriginKind::argument:
      case OriginKind::wiring:
        decide_operations();
        return;
      case OriginKind::random:
      case OriginKind::outside:
        result_.verdict = AttributionVerdict::inputs;
        decide_inputs();
        return;
      default:
        return;
    }
  }

  void decide_inputs() {
    const Origin& origin = result_.origin;
    if (origin.kind != OriginKind::outside) return;
    if (old_.seed != new_.seed) {
      result_.remark = origin.what;
      result_.cause = "seed " + arrow(old_.seed, new_.seed);
      return;
    }
    const std::vector<std::string> names =
        causes({EffectOfDifference::operations, EffectOfDifference::kernels});
    if (!names.empty())
      result_.remark = names.front() +
                       " may have changed them before the recording; record from "
                       "the creation of the model on";
  }

  std::vector<std::string> causes(std::initializer_list<EffectOfDifference> effects) const {
    std::vector<std::string> found;
    for (const EnvironmentDifference& one : result_.differences) {
      if (std::ranges::find(effects, one.effect) != effects.end()) found.push_back(one.text());
    }
    return found;
  }

  void explain_by(const std::vector<std::string>& names) {
    result_.verdict = AttributionVerdict::drift;
    result_.cause.clear();
    for (const std::string& one : names)
      result_.cause += (result_.cause.empty() ? "" : " or ") + one;
    if (names.size() > 1)
      result_.remark =
          "several differences can have this effect; record with one of them at a time";
  }

  void decide_kernel() {
    std::vector<std::string> names =
        causes({EffectOfDifference::operations, EffectOfDifference::kernels});
    if (names.empty()) names = causes({EffectOfDifference::possible});
    if (!names.empty()) {
      explain_by(names);
      return;
    }
    result_.remark =
        "libraries and settings are the same: the operation is not deterministic, or its "
        "kernel was replaced";
  }

  /// Other operations are those of a library if the program's line is the same.
  void decide_operations() {
    const Origin& origin = result_.origin;
    std::optional<std::size_t> a = origin.before, b = origin.after;
    if (origin.kind == OriginKind::replaced) {
      if (!origin.removed.empty()) a = origin.removed.front();
      if (!origin.inserted.empty()) b = origin.inserted.front();
    }
    const std::string package = package_of(new_, b);
    for (EnvironmentDifference& one : result_.differences) {
      if (one.group != "library" || package.empty() || one.name != lower_name(package)) continue;
      one.effect = EffectOfDifference::operations;
      explain_by({one.text()});
      result_.remark = origin.what;
      return;
    }
    if (line_text(old_, a) != line_text(new_, b)) {
      result_.remark = "the program's line differs";
      return;
    }
    const std::vector<std::string> names = causes({EffectOfDifference::operations});
    if (names.empty()) return;
    explain_by(names);
    result_.remark = origin.what + (result_.remark.empty() ? "" : "; ") + result_.remark;
  }

  static std::string lower_name(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) {
      return c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    });
    return text;
  }

  const OperationsFile &old_, &new_;
  const std::vector<AlignedRow> rows_;
  std::vector<std::size_t> row_of_old_, row_of_new_;
  std::size_t uncompared_ = 0;              ///< pairs without a compared result, as of an input
  std::optional<std::size_t> first_;        ///< row of the first pair with other bits
  std::optional<std::size_t> first_quiet_;  ///< with other arguments and the same results
  Attribution result_;
};

}  // namespace

std::string short_name(const std::string& operation) {
  const std::size_t end = operation.find('.', operation.find('.') + 1);
  return operation.substr(0, end);
}

std::string_view name(AttributionVerdict verdict) {
  constexpr std::array names = {"equal", "drift", "regression", "inputs"};
  return names[static_cast<std::size_t>(verdict)];
}

std::string_view name(OriginKind kind) {
  constexpr std::array names = {"none",    "kernel", "replaced", "argument",   "random",
                                "outside", "memory", "wiring",   "collective", "length"};
  return names[static_cast<std::size_t>(kind)];
}

std::string Attribution::sentence() const {
  switch (verdict) {
    case AttributionVerdict::equal:
      return "equal";
    case AttributionVerdict::drift:
      return "drift, explained by " + cause;
    case AttributionVerdict::regression:
      return "regression: " + cause;
    case AttributionVerdict::inputs:
      break;
  }
  return "other inputs: " + cause;
}

Attribution attribute(const OperationsFile& before, const OperationsFile& after) {
  return Attributor(before, after).run();
}

}  // namespace zeroproof::verification
