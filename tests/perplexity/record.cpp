#include "tests/perplexity/record.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace zeroproof::perplexity {

std::string text_of(double value, const char* format) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::vector<std::string> heading() {
  std::string line = "# format | seed | perplexity after";
  for (const std::int64_t point : points) line.append(" ").append(std::to_string(point));
  return {"# Perplexity of text that was held out, by formats: written by format_perplexity --write.",
          line + " steps"};
}

std::string line_of(const Form& form, std::uint64_t seed, std::size_t num_points) {
  std::string line = form.name + " | " + std::to_string(seed) + " |";
  for (const double value : perplexities(form, seed, num_points)) line += text_of(value, " %.4f");
  return line;
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + " cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace zeroproof::perplexity
