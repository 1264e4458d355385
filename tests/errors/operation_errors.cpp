// operation_errors --write FILE [--elements N]   measures every operation over N elements (10^8) and writes the record
// operation_errors --check FILE                  the first calls of each again: 0 as recorded, 1 not
// operation_errors --check-all FILE [--elements N]  all of them again, over the elements that the record was made with
// operation_errors --table FILE                  the record for people
// Errors are those of production's host twins, whose bits every twin has, against fp64, in units of the bound that
// papers/fusions.md derives. Exit status 1 also if an error is above its bound, 2: bad usage, or a file that cannot be
// used. --threads N: as many threads (the cores there are); the numbers do not depend on it.

#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "common/base/parallel_for.hpp"
#include "tests/errors/batch.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::errors;

constexpr std::int64_t first_calls = 64;
constexpr std::int64_t calls_of_group = 1024;

struct Arguments {
  std::string action, file;
  std::int64_t elements = 100'000'000;
  int threads = available_cores();
};

/// One result of one operation.
struct Row {
  std::string operation, result;
  std::int64_t judged = 0;
  double worst = 0, worst_first = 0;  ///< of all calls, and of the first ones
};

std::uint64_t number_of(const std::string& operation, std::int64_t call) {
  std::uint64_t hash = 5381;
  for (const char letter : operation) hash = hash * 33 + static_cast<unsigned char>(letter);
  return (hash << 28) + static_cast<std::uint64_t>(call);
}

void add(Figures& to, const Figures& from) {
  for (const auto& [name, figure] : from) {
    bool known = false;
    for (auto& [other, sum] : to) {
      if (other != name) continue;
      sum.add(figure);
      known = true;
    }
    if (!known) to.emplace_back(name, figure);
  }
}

Figures measured(const Measured& operation, std::int64_t first, std::int64_t last) {
  Figures figures;
  for (std::int64_t call = first; call < last; ++call) {
    Batch batch(number_of(operation.name, call));
    operation.call(batch);
    add(figures, batch.figures());
  }
  return figures;
}

/// elements: 0 for the first calls alone.
std::vector<Row> rows_of(const Measured& operation, std::int64_t elements, int threads) {
  const Figures first = measured(operation, 0, first_calls);
  Figures all = first;
  const std::int64_t calls = std::max(first_calls, (elements + operation.elements - 1) / operation.elements);
  const std::int64_t groups = (calls - first_calls + calls_of_group - 1) / calls_of_group;
  std::vector<Figures> parts(static_cast<std::size_t>(groups));
  parallel_for(threads, groups, [&](std::int64_t g) {
    const std::int64_t begin = first_calls + g * calls_of_group;
    parts[static_cast<std::size_t>(g)] = measured(operation, begin, std::min(calls, begin + calls_of_group));
  });
  for (const Figures& part : parts) add(all, part);
  std::vector<Row> rows;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Figure& figure = all[k].second;
    rows.push_back({operation.name, all[k].first, figure.judged, figure.worst, first[k].second.worst});
  }
  return rows;
}

std::vector<Row> all_rows(std::int64_t elements, int threads) {
  std::vector<Row> rows;
  for (const auto family : {measured_activations, measured_rows, measured_losses, measured_weights}) {
    for (const Measured& operation : family()) {
      const std::vector<Row> of_operation = rows_of(operation, elements, threads);
      rows.insert(rows.end(), of_operation.begin(), of_operation.end());
      if (elements > 0) std::fprintf(stderr, "%s\n", operation.name);
    }
  }
  return rows;
}

std::string ratio_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", ratio);
  return text;
}

std::string line_of(const Row& row) {
  return row.operation + " " + row.result + " " + std::to_string(row.judged) + " " + ratio_text(row.worst) +
         " " + ratio_text(row.worst_first);
}

std::vector<Row> read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + " cannot be read");
  std::vector<Row> rows;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Row row;
    if (!(words >> row.operation >> row.result >> row.judged >> row.worst >> row.worst_first)) {
      throw std::runtime_error(file + " has a line that is no figure: " + line);
    }
    rows.push_back(row);
  }
  return rows;
}

/// Rows beyond their bound, a NaN too.
int beyond(const std::vector<Row>& rows) {
  int count = 0;
  for (const Row& row : rows) {
    if (row.worst <= 1) continue;
    std::printf("%s of %s is %s times its bound away (no legal order of operations leaves that)\n",
                row.result.c_str(), row.operation.c_str(), ratio_text(row.worst).c_str());
    ++count;
  }
  return count;
}

int write(const Arguments& arguments) {
  const std::vector<Row> rows = all_rows(arguments.elements, arguments.threads);
  std::ofstream stream(arguments.file, std::ios::trunc);
  stream << "# Largest error of operations in units of its bound: written by operation_errors --write.\n"
            "# operation, result, elements, largest of all, largest of the first "
         << first_calls << " calls\n";
  for (const Row& row : rows) stream << line_of(row) << "\n";
  stream.close();
  if (!stream.good()) throw std::runtime_error(arguments.file + " cannot be written");
  return beyond(rows) > 0 ? 1 : 0;
}

int check(const Arguments& arguments, bool all) {
  const std::vector<Row> kept = read(arguments.file);
  std::vector<Row> now = all_rows(all ? arguments.elements : 0, arguments.threads);
  int wrong = beyond(now);
  for (std::size_t k = 0; k < std::max(kept.size(), now.size()); ++k) {
    if (!all && k < kept.size() && k < now.size()) {
      now[k].judged = kept[k].judged;
      now[k].worst = kept[k].worst;
    }
    const std::string before = k < kept.size() ? line_of(kept[k]) : "nothing";
    const std::string after = k < now.size() ? line_of(now[k]) : "nothing";
    if (before == after) continue;
    std::printf("recorded: %s\nmeasured: %s\n", before.c_str(), after.c_str());
    ++wrong;
  }
  for (const Row& row : kept) wrong += row.worst <= 1 ? 0 : 1;
  std::printf("%zu results, %d not as %s says\n", now.size(), wrong, arguments.file.c_str());
  return wrong > 0 ? 1 : 0;
}

int table(const Arguments& arguments) {
  std::printf("%-26s %-12s %13s  %s\n", "operation", "result", "elements", "largest error / bound");
  for (const Row& row : read(arguments.file)) {
    std::string digits = std::to_string(row.judged);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
      digits.insert(static_cast<std::size_t>(at), 1, ',');
    }
    std::printf("%-26s %-12s %13s  %s\n", row.operation.c_str(), row.result.c_str(), digits.c_str(),
                ratio_text(row.worst).c_str());
  }
  return 0;
}

template <class Number>
Number number(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
    throw std::invalid_argument(text + " is no number of at least 1");
  }
  return value;
}

Arguments parsed(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "--elements") {
      arguments.elements = number<std::int64_t>(words[i + 1]);
    } else if (words[i] == "--threads") {
      arguments.threads = number<int>(words[i + 1]);
    } else {
      arguments.action = words[i];
      arguments.file = words[i + 1];
    }
  }
  if (words.size() % 2 != 0) arguments.action.clear();
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parsed({argv + 1, argv + argc});
    if (arguments.action == "--write") return write(arguments);
    if (arguments.action == "--check") return check(arguments, false);
    if (arguments.action == "--check-all") return check(arguments, true);
    if (arguments.action == "--table") return table(arguments);
    std::fprintf(stderr,
                 "operation_errors: what to do was not said; use --write, --check, --check-all or --table "
                 "with a FILE\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "operation_errors: %s\n", error.what());
    return 2;
  }
}
