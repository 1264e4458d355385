#include "verification/tools/attribute/attribution_report.hpp"

#include <algorithm>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* attribution_schema = "zeroproof-attribution/1";
constexpr std::size_t most_rows = 8;  // of inputs, outputs and differences

std::string row(const std::string& label, const std::string& text) {
  return fmt::format("{:<11}{}\n", label, sentence(text));
}

std::string file_row(const std::string& label, const OperationsFile& file) {
  return row(label, file.path +
                        (file.world > 1 ? ": rank " + std::to_string(file.rank) + " of " +
                                              std::to_string(file.world)
                                        : "") +
                        ": " + std::to_string(file.operations.size()) + " operations, torch " +
                        text_of(file.libraries, "torch") +
                        (file.ends_early.empty() ? "" : " (" + file.ends_early + ")"));
}

/// "gpt.py:8  y = self.fc(x)"; "" if it is not known.
std::string line_of(const OperationsFile& file, const Operation& operation) {
  if (!operation.line) return "";
  const SourceLine& line = file.lines[*operation.line];
  return line.file + ":" + std::to_string(line.number) + "  " + line.text;
}

std::string shown_operation(const OperationsFile& file, std::size_t index) {
  const Operation& one = file.operations[index];
  std::string text = "#" + std::to_string(index) + " " + one.name + ", " + one.phase;
  std::string module = one.module;
  if (one.forward) {
    const Operation& forward = file.operations[*one.forward];
    if (module.empty()) module = forward.module;
    text += " of #" + std::to_string(*one.forward) + " " + short_name(forward.name);
  }
  return text + (module.empty() ? "" : ", " + module);
}

std::string hex(const OperationValue& value) {
  return value.digest       ? fmt::format("{:016x}", *value.digest)
         : value.uncompared ? "not compared"
                            : "a view";
}

std::string shown_value(const OperationValue* value, bool same_text) {
  return value == nullptr ? "(default)" : same_text ? hex(*value) : value->text;
}

/// A row for every value that differs.
std::string value_rows(const std::string& label, const std::vector<OperationValue>& a,
                       const std::vector<OperationValue>& b) {
  std::string text;
  std::size_t differing = 0;
  for (const ValuePair& pair : pair_values(a, b)) {
    if (pair.same() || ++differing > most_rows) continue;
    const OperationValue& one = pair.before != nullptr ? *pair.before : *pair.after;
    const bool same_text =
        pair.before != nullptr && pair.after != nullptr && pair.before->text == pair.after->text;
    text += row(text.empty() ? label : "", one.name + (same_text ? ' ' + one.text : "") + ": " +
                                               shown_value(pair.before, same_text) + " -> " +
                                               shown_value(pair.after, same_text));
  }
  if (differing > most_rows)
    text += row("", "and " + std::to_string(differing - most_rows) + " more");
  return differing == 0 ? row(label, "agree in bits") : text;
}

std::string origin_rows(const RankAttribution& rank) {
  const Origin& origin = rank.found.origin;
  const OperationsFile &a = rank.before, &b = rank.after;
  std::string text, last_line;
  const auto place = [&](const OperationsFile& file, std::optional<std::size_t> index,
                         const std::string& label) {
    if (!index) return;
    const std::string line = line_of(file, file.operations[*index]);
    text += row(label, shown_operation(file, *index));
    if (!line.empty() && line != last_line) text += row("", line);
    last_line = line;
  };
  const auto places = [&](const OperationsFile& file, const std::vector<std::size_t>& operations,
                          const std::string& label) {
    for (std::size_t i = 0; i < std::min(most_rows, operations.size()); ++i)
      place(file, operations[i], i == 0 ? label : "");
    if (operations.size() > most_rows)
      text += row("", "and " + std::to_string(operations.size() - most_rows) + " more");
  };
  if (origin.kind == OriginKind::replaced) {
    places(a, origin.removed, "only OLD");
    places(b, origin.inserted, "only NEW");
    if (origin.before && origin.after) place(b, origin.after, "shows at");
  } else if (origin.before && origin.after) {
    place(b, origin.after, "origin");
    if (*origin.before != *origin.after)
      text += row("", "in OLD #" + std::to_string(*origin.before));
  }
  if (origin.before && origin.after) {
    const Operation &old = a.operations[*origin.before], &now = b.operations[*origin.after];
    text += value_rows("inputs", old.inputs, now.inputs) +
            value_rows("outputs", old.outputs, now.outputs);
  }
  return text;
}

std::string counts_row(const RowCounts& counts) {
  std::string text =
      fmt::format("{} agree, {} have other bits from the same inputs, {} have other inputs",
                  counts.agree, counts.own, counts.inherit);
  if (counts.views > 0) text += fmt::format(", {} compute nothing that is compared", counts.views);
  if (counts.only_old + counts.only_new > 0)
    text += fmt::format("; {} only in OLD, {} only in NEW", counts.only_old, counts.only_new);
  return text;
}

std::string difference_rows(const std::vector<EnvironmentDifference>& differences) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most_rows, differences.size()); ++i)
    text += row(i == 0 ? "differ" : "", differences[i].group + ' ' + differences[i].text());
  if (differences.size() > most_rows)
    text += row("", "and " + std::to_string(differences.size() - most_rows) + " more");
  return text.empty() ? row("differ", "no library, machine or setting") : text;
}

Json json_of(const NamedTexts& texts) {
  Json object = Json::object();
  for (const auto& [name, text] : texts) object[name] = text;
  return object;
}

Json json_of(const OperationsFile& file, std::size_t index) {
  const Operation& one = file.operations[index];
  Json json = {{"index", index}, {"name", one.name}, {"phase", one.phase}, {"module", one.module}};
  if (one.line) {
    const SourceLine& line = file.lines[*one.line];
    json["line"] = Json{{"file", line.file}, {"number", line.number}, {"text", line.text}};
  }
  if (one.forward) json["forward"] = *one.forward;
  return json;
}

Json json_of(const OperationsFile& file, const std::vector<std::size_t>& operations) {
  Json list = Json::array();
  for (const std::size_t one : operations) list.push_back(json_of(file, one));
  return list;
}

Json json_of(const OperationsFile& file) {
  return {{"file", file.path},
          {"operations", file.operations.size()},
          {"complete", file.ends_early.empty()},
          {"ends", file.ends_early},
          {"seed", file.seed},
          {"libraries", json_of(file.libraries)},
          {"machine", json_of(file.machine)}};
}

Json json_of(const RankAttribution& rank) {
  const Attribution& found = rank.found;
  const Origin& origin = found.origin;
  Json differences = Json::array();
  for (const EnvironmentDifference& one : found.differences) {
    differences.push_back({{"group", one.group},
                           {"name", one.name},
                           {"old", one.before},
                           {"new", one.after},
                           {"can_change_bits", one.effect != EffectOfDifference::none}});
  }
  Json at = {{"kind", std::string(name(origin.kind))},
             {"what", origin.what},
             {"removed", json_of(rank.before, origin.removed)},
             {"inserted", json_of(rank.after, origin.inserted)}};
  if (origin.before) at["old"] = json_of(rank.before, *origin.before);
  if (origin.after) at["new"] = json_of(rank.after, *origin.after);
  const RowCounts& counts = found.counts;
  return {{"rank", rank.before.rank},
          {"verdict", std::string(name(found.verdict))},
          {"sentence", found.sentence()},
          {"cause", found.cause},
          {"remark", found.remark},
          {"origin", at},
          {"counts", Json{{"agree", counts.agree},
                          {"not_compared", counts.views},
                          {"other_bits", counts.own},
                          {"inherit", counts.inherit},
                          {"only_old", counts.only_old},
                          {"only_new", counts.only_new}}},
          {"differences", differences},
          {"old", json_of(rank.before)},
          {"new", json_of(rank.after)}};
}

}  // namespace

std::vector<RankAttribution> attribute_files(const std::string& before, const std::string& after) {
  const std::vector<std::string> olds = operations_files(before), news = operations_files(after);
  ZP_CHECK(olds.size() == news.size(), ErrorCode::config,
           before + " has " + std::to_string(olds.size()) + " ranks and " + after + " has " +
               std::to_string(news.size()),
           "each rank is compared with itself", "record both on the same number of ranks");
  std::vector<RankAttribution> ranks;
  for (std::size_t i = 0; i < olds.size(); ++i) {
    RankAttribution rank{read_operations(olds[i]), read_operations(news[i]), {}};
    for (const OperationsFile* file : {&rank.before, &rank.after}) {
      ZP_CHECK(olds.size() == 1 || (file->rank == static_cast<std::int64_t>(i) &&
                                    file->world == static_cast<std::int64_t>(olds.size())),
               ErrorCode::config,
               file->path + " is of rank " + std::to_string(file->rank) + " of " +
                   std::to_string(file->world),
               "", "name a recording whose ranks are all there");
    }
    ZP_CHECK(rank.before.rank == rank.after.rank && rank.before.world == rank.after.world,
             ErrorCode::config,
             rank.before.path + " is of rank " + std::to_string(rank.before.rank) + " of " +
                 std::to_string(rank.before.world) + " and " + rank.after.path + " of rank " +
                 std::to_string(rank.after.rank) + " of " + std::to_string(rank.after.world),
             "each rank is compared with itself", "name recordings of the same rank");
    rank.found = attribute(rank.before, rank.after);
    ranks.push_back(std::move(rank));
  }
  ZP_CHECK(std::ranges::any_of(ranks,
                               [](const RankAttribution& rank) {
                                 return rank.found.verdict != AttributionVerdict::equal ||
                                        rank.found.counts.agree > 0;
                               }),
           ErrorCode::config, before + " and " + after + " have no result that is compared",
           "their operations compute nothing, or depend on memory that was never written",
           "record the part of the program that computes");
  return ranks;
}

const RankAttribution& first_of(const std::vector<RankAttribution>& ranks) {
  const auto key = [](const RankAttribution& rank) {
    const Origin& origin = rank.found.origin;
    return std::tuple(rank.found.verdict == AttributionVerdict::equal,
                      origin.kind == OriginKind::collective,
                      origin.after.value_or(rank.after.operations.size()));
  };
  return *std::ranges::min_element(ranks, {}, key);
}

std::string attribution_text(const std::vector<RankAttribution>& ranks) {
  const RankAttribution& first = first_of(ranks);
  const Attribution& found = first.found;
  std::string text = file_row("old", first.before) + file_row("new", first.after);
  text += row("operations", counts_row(found.counts));
  text += origin_rows(first);
  text += difference_rows(found.differences);
  if (!found.others.empty()) {
    std::string others;
    for (std::size_t i = 0; i < std::min(most_rows, found.others.size()); ++i)
      others += fmt::format("{}{} ({})", i == 0 ? "" : ", ", found.others[i].first,
                            found.others[i].second);
    text += row("others", "other bits from the same inputs too: " + others);
  }
  if (ranks.size() > 1) {
    for (const RankAttribution& rank : ranks)
      text += row("rank " + std::to_string(rank.before.rank), rank.found.sentence());
  }
  if (!found.remark.empty()) text += row("remark", found.remark);
  return text + sentence(found.sentence()) + "\n";
}

Json attribution_json(const std::vector<RankAttribution>& ranks) {
  const RankAttribution& first = first_of(ranks);
  Json list = Json::array();
  for (const RankAttribution& rank : ranks) list.push_back(json_of(rank));
  return {{"schema", attribution_schema},
          {"equal", first.found.verdict == AttributionVerdict::equal},
          {"verdict", std::string(name(first.found.verdict))},
          {"sentence", first.found.sentence()},
          {"first_rank", first.before.rank},
          {"ranks", list}};
}

}  // namespace zeroproof::verification
