// What formats cost in perplexity is what the record says: the beginning of one seed, and at night all of it.

#include <doctest.h>

#include <iterator>

#include "tests/perplexity/record.hpp"
#include "tests/support/paths.hpp"

namespace {

using namespace zeroproof::perplexity;

std::vector<std::string> recorded() {
  return lines_of(zeroproof::tests::source_folder() + "/verification/bench/records/format_perplexity.txt");
}

/// The line of a form and a seed.
const std::string& line_at(const std::vector<std::string>& lines, std::size_t form, std::size_t seed) {
  return lines.at(heading().size() + form * std::size(seeds) + seed);
}

}  // namespace

TEST_CASE("perplexity: the record has every format, and begins as they do") {
  const std::vector<std::string> lines = recorded();
  REQUIRE(lines.size() == heading().size() + forms().size() * std::size(seeds));
  CHECK(std::vector<std::string>(lines.begin(), lines.begin() + std::ssize(heading())) == heading());
  for (std::size_t k = 0; k < forms().size(); ++k) {
    const std::string found = line_of(forms()[k], seeds[0], 1);
    CHECK(line_at(lines, k, 0).substr(0, found.size() + 1) == found + " ");
  }
}

TEST_CASE("nightly: perplexity: all of the record") {
  const std::vector<std::string> lines = recorded();
  for (std::size_t k = 0; k < forms().size(); ++k) {
    for (std::size_t s = 0; s < std::size(seeds); ++s)
      CHECK(line_at(lines, k, s) == line_of(forms()[k], seeds[s], std::size(points)));
  }
}
