// format_perplexity --write FILE  trains in every format with every seed and writes the record: minutes
// format_perplexity --table FILE  prints the record
// Exit status: 0 done, 2 bad usage, or a file that cannot be used.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include "verification/bench/research/perplexity/forms.hpp"

namespace {

using namespace zeroproof::perplexity;

constexpr std::uint64_t seeds[] = {1, 2, 3};

std::string text_of(double value, const char* format) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::vector<std::string> heading() {
  std::string line = "# format | seed | perplexity after";
  for (const std::int64_t point : points) line.append(" ").append(std::to_string(point));
  return {
      "# Perplexity of text that was held out, by formats: written by format_perplexity --write.",
      line + " steps"};
}

/// "parameters fp32 | 1 | 84.1150 33.8847": the perplexities after the points.
std::string line_of(const Form& form, std::uint64_t seed) {
  std::string line = form.name + " | " + std::to_string(seed) + " |";
  for (const double value : perplexities(form, seed, std::size(points)))
    line += text_of(value, " %.4f");
  return line;
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + " cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void write(const std::string& file) {
  std::vector<std::string> lines = heading();
  for (const Form& form : forms()) {
    for (const std::uint64_t seed : seeds) {
      lines.push_back(line_of(form, seed));
      std::fprintf(stderr, "%s\n", lines.back().c_str());
    }
  }
  std::ofstream stream(file, std::ios::trunc);
  for (const std::string& line : lines) stream << line << "\n";
  stream.close();
  if (!stream.good()) throw std::runtime_error(file + " cannot be written");
}

/// Perplexities after the last step, by format and in the order of the seeds.
std::map<std::string, std::vector<double>> last_of(const std::string& file) {
  std::map<std::string, std::vector<double>> found;
  for (const std::string& line : lines_of(file)) {
    if (line.starts_with("#")) continue;
    std::istringstream last(line.substr(line.rfind(' ') + 1));
    double value = 0;
    if (!(last >> value))
      throw std::runtime_error(file + " has a line without a perplexity: " + line);
    found[line.substr(0, line.find(" | "))].push_back(value);
  }
  for (const Form& form : forms()) {
    if (found[form.name].size() != std::size(seeds))
      throw std::runtime_error(file + " has not every seed of " + form.name);
  }
  return found;
}

void table(const std::string& file) {
  const std::map<std::string, std::vector<double>> found = last_of(file);
  const std::vector<double>& base = found.at(forms().front().name);
  std::printf("%-31s  perplexity, seeds 1 to 3     from the first row\n", "kept in");
  for (const Form& form : forms()) {
    const std::vector<double>& values = found.at(form.name);
    std::string row;
    std::vector<double> percent;
    for (std::size_t s = 0; s < values.size(); ++s) {
      row += text_of(values[s], "  %7.4f");
      percent.push_back(100 * (values[s] / base[s] - 1));
    }
    const auto [least, most] = std::ranges::minmax(percent);
    std::printf("%-31s%s  %s to %s\n", form.name.c_str(), row.c_str(),
                text_of(least, "%+.2f%%").c_str(), text_of(most, "%+.2f%%").c_str());
  }
  const auto [least, most] = std::ranges::minmax(base);
  std::printf("from the best seed of the first row to the worst: %s\n",
              text_of(100 * (most / least - 1), "%+.2f%%").c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string action = argc == 3 ? argv[1] : "";
    if (action != "--write" && action != "--table")
      throw std::invalid_argument("no action was given; use --write or --table with a FILE");
    action == "--write" ? write(argv[2]) : table(argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "format_perplexity: %s\n", error.what());
    return 2;
  }
}
