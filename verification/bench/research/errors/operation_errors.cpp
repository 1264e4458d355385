// operation_errors --write FILE [--elements N]  measures every operation over N elements (10^8)
// operation_errors --table FILE                 prints the record
// Errors are those of production's host implementations, whose bits every implementation has,
// against fp64, in units of the bound derived in papers/fusions.md. Exit status 1 also if an error
// is above its bound, 2: bad usage, or an unusable file. --threads N: number of threads (default:
// the cores); the numbers do not depend on it.

#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "common/base/parallel_for.hpp"
#include "verification/bench/research/errors/batch.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::errors;

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
  double worst = 0;
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

std::vector<Row> rows_of(const Measured& operation, std::int64_t elements, int threads) {
  Figures all;
  const std::int64_t calls =
      std::max<std::int64_t>(64, (elements + operation.elements - 1) / operation.elements);
  const std::int64_t groups = (calls + calls_of_group - 1) / calls_of_group;
  std::vector<Figures> parts(groups);
  parallel_for(threads, groups, [&](std::int64_t g) {
    const std::int64_t begin = g * calls_of_group;
    parts[g] = measured(operation, begin, std::min(calls, begin + calls_of_group));
  });
  for (const Figures& part : parts) add(all, part);
  std::vector<Row> rows;
  for (const auto& [name, figure] : all) {
    rows.push_back({operation.name, name, figure.judged, figure.worst});
  }
  return rows;
}

std::vector<Row> all_rows(std::int64_t elements, int threads) {
  std::vector<Row> rows;
  for (const auto family :
       {measured_activations, measured_rows, measured_losses, measured_weights}) {
    for (const Measured& operation : family()) {
      const std::vector<Row> of_operation = rows_of(operation, elements, threads);
      rows.insert(rows.end(), of_operation.begin(), of_operation.end());
      std::fprintf(stderr, "%s\n", operation.name);
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
  return row.operation + " " + row.result + " " + std::to_string(row.judged) + " " +
         ratio_text(row.worst);
}

std::vector<Row> read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + " cannot be read");
  std::vector<Row> rows;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Row row;
    if (!(words >> row.operation >> row.result >> row.judged >> row.worst)) {
      throw std::runtime_error(file + " has a line that is no figure: " + line);
    }
    rows.push_back(row);
  }
  return rows;
}

/// Rows beyond their bound, also NaN.
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
  stream << "# Largest error of operations in units of its bound: written by operation_errors "
            "--write.\n"
            "# operation, result, elements, largest\n";
  for (const Row& row : rows) stream << line_of(row) << "\n";
  stream.close();
  if (!stream.good()) throw std::runtime_error(arguments.file + " cannot be written");
  return beyond(rows) > 0 ? 1 : 0;
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
    if (arguments.action == "--table") return table(arguments);
    std::fprintf(stderr,
                 "operation_errors: no action was given; use --write or --table with a FILE\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "operation_errors: %s\n", error.what());
    return 2;
  }
}
