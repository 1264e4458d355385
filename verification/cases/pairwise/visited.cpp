#include "verification/cases/pairwise/visited.hpp"

#include "verification/cases/pairwise/axis.hpp"
#include "verification/cases/pairwise/possible.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

/// How much of one axis was visited.
struct AxisCount {
  std::int64_t values = 0, possible_values = 0, pairs = 0, possible_pairs = 0;
  std::vector<std::string> left_out, impossible;
};

AxisCount count_axis(const Coverage& coverage, std::size_t axis) {
  AxisCount count;
  const Axis& one = axes()[axis];
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    const int number = coverage.possible.number(axis, static_cast<int>(i));
    const bool possible = coverage.possible.marked(number, number);
    const bool visited = coverage.visited.marked(number, number);
    count.possible_values += possible ? 1 : 0;
    count.values += visited ? 1 : 0;
    if (!possible) count.impossible.push_back(one.values[i].name);
    if (possible && !visited) count.left_out.push_back(one.values[i].name);
    for (int other = 0; other < coverage.possible.num_values(); ++other) {
      if (other == number) continue;
      count.possible_pairs += coverage.possible.marked(number, other) ? 1 : 0;
      count.pairs += coverage.visited.marked(number, other) ? 1 : 0;
    }
  }
  return count;
}

/// Words separated by commas, wrapped at `width`; each line is indented by the column of the first
/// word.
std::string in_lines(const std::vector<std::string>& words, std::size_t indent, std::size_t width) {
  std::string text;
  std::size_t column = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (column > 0 && column + 1 + word.size() > width) {
      text += "\n" + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) text += " ";
    text += word;
    column += word.size() + (column > 0 ? 1 : 0);
  }
  return text;
}

std::vector<std::string> names_of_group(std::size_t group) {
  std::vector<std::string> names;
  for (const std::size_t axis : axis_groups()[group].axes) names.push_back(axes()[axis].name);
  return names;
}

Json words_of(const std::vector<std::string>& words) { return Json(words); }

}  // namespace

Coverage coverage_of(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                     Strength strength) {
  const RunSpace space({}, "byte_gpt_tiny");
  Coverage coverage;
  coverage.cases = cases.size();
  coverage.possible = PossibleCombinations(space, strength).table();
  for (const CaseSpec& spec : cases) {
    const std::vector<int> values = values_of({config_of(options, spec), spec});
    coverage.visited.mark_all(values, strength);
    coverage.possible.mark_all(values, strength);
  }
  return coverage;
}

std::string coverage_text(const Coverage& coverage) {
  constexpr std::size_t indent = 49;
  std::string text = fmt::format(
      "{} training {}: {} of {} values, {} of {} pairs, {} of {} triples in groups\n\n"
      "{:<18} {:>9}  {:>17}  never visited\n",
      grouped(static_cast<std::int64_t>(coverage.cases)), coverage.cases == 1 ? "case" : "cases",
      coverage.visited.marked_values(), coverage.possible.marked_values(),
      grouped(coverage.visited.marked_pairs()), grouped(coverage.possible.marked_pairs()),
      grouped(coverage.visited.marked_triples()), grouped(coverage.possible.marked_triples()),
      "setting", "values", "pairs");
  for (std::size_t axis = 0; axis < axes().size(); ++axis) {
    const AxisCount count = count_axis(coverage, axis);
    const std::string row =
        fmt::format("{:<18} {:>9}  {:>17}  ", axes()[axis].name,
                    fmt::format("{} of {}", count.values, count.possible_values),
                    fmt::format("{} of {}", grouped(count.pairs), grouped(count.possible_pairs)));
    const std::string rest =
        count.left_out.empty() ? "-" : in_lines(count.left_out, indent, 100 - indent);
    text += row + rest + "\n";
  }
  text += fmt::format("\n{:<18}            {:>17}  settings\n", "group", "triples");
  for (std::size_t group = 0; group < axis_groups().size(); ++group) {
    const std::string count =
        fmt::format("{} of {}", grouped(coverage.visited.marked_triples(group)),
                    grouped(coverage.possible.marked_triples(group)));
    text += fmt::format("{:<18}            {:>17}  {}\n", axis_groups()[group].name, count,
                        in_lines(names_of_group(group), indent, 100 - indent));
  }
  return text;
}

std::vector<VisitedAxis> axis_matrix(const Coverage& coverage) {
  std::vector<VisitedAxis> matrix(axes().size());
  for (std::size_t axis = 0; axis < axes().size(); ++axis) {
    matrix[axis].name = axes()[axis].name;
    matrix[axis].pairs.resize(axis);
  }
  for (int a = 0; a < coverage.possible.num_values(); ++a) {
    const std::size_t axis = coverage.possible.axis_of(a);
    for (int b = 0; b <= a; ++b) {
      if (!coverage.possible.marked(a, b)) continue;
      const std::size_t other = coverage.possible.axis_of(b);
      if (other == axis && a != b) continue;
      VisitedAxis::Share& share = a == b ? matrix[axis].values : matrix[axis].pairs[other];
      ++share.possible;
      share.visited += coverage.visited.marked(a, b) ? 1 : 0;
    }
  }
  return matrix;
}

Json coverage_json(const Coverage& coverage) {
  const auto counts = [](std::int64_t visited, std::int64_t possible) {
    return Json{{"visited", visited}, {"possible", possible}};
  };
  Json rows = Json::array();
  for (std::size_t axis = 0; axis < axes().size(); ++axis) {
    const AxisCount count = count_axis(coverage, axis);
    Json row = {{"setting", axes()[axis].name},
                {"values", counts(count.values, count.possible_values)},
                {"pairs", counts(count.pairs, count.possible_pairs)},
                {"never_visited", words_of(count.left_out)},
                {"cannot_be", words_of(count.impossible)}};
    rows.push_back(std::move(row));
  }
  Json pairs = Json::array();
  for (int a = 0; a < coverage.possible.num_values(); ++a) {
    for (int b = a + 1; b < coverage.possible.num_values(); ++b) {
      if (!coverage.possible.marked(a, b) || coverage.visited.marked(a, b)) continue;
      pairs.push_back(words_of({coverage.possible.name_of(a), coverage.possible.name_of(b)}));
    }
  }
  Json groups = Json::array(), triples = Json::array();
  for (std::size_t group = 0; group < axis_groups().size(); ++group) {
    groups.push_back({{"group", axis_groups()[group].name},
                      {"settings", words_of(names_of_group(group))},
                      {"triples", counts(coverage.visited.marked_triples(group),
                                         coverage.possible.marked_triples(group))}});
  }
  for (std::size_t i = coverage.possible.first_triple(0); i < coverage.possible.size(); ++i) {
    if (!coverage.possible.marked(i) || coverage.visited.marked(i)) continue;
    std::vector<std::string> names;
    for (const int member : coverage.possible.members(i))
      names.push_back(coverage.possible.name_of(member));
    triples.push_back(words_of(names));
  }
  return {
      {"schema", "zeroproof-coverage/1"},
      {"cases", static_cast<std::int64_t>(coverage.cases)},
      {"values", counts(coverage.visited.marked_values(), coverage.possible.marked_values())},
      {"pairs", counts(coverage.visited.marked_pairs(), coverage.possible.marked_pairs())},
      {"triples", counts(coverage.visited.marked_triples(), coverage.possible.marked_triples())},
      {"settings", std::move(rows)},
      {"groups", std::move(groups)},
      {"pairs_never_visited", std::move(pairs)},
      {"triples_never_visited", std::move(triples)}};
}

}  // namespace zeroproof::verification
