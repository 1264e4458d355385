#include "verification/cli/covering_rows.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/pairwise/covering_array.hpp"

namespace zeroproof::verification {
namespace {

Strength strength_of(const std::string& text) {
  if (text == "values") return Strength::values;
  if (text == "pairs") return Strength::pairs;
  if (text == "triples") return Strength::triples;
  fail(ErrorCode::config, "--cover is '" + text + "'",
       "it selects which combinations the rows contain",
       suggestion(text, {"values", "pairs", "triples"}));
}

/// Row i is in the slice if i mod `of` = `first`.
struct Slice {
  std::size_t first = 0, of = 1;
};

Slice slice_of(const std::string& text) {
  if (text.empty()) return {};
  const std::vector<std::string> parts = id_parts(text);
  const auto first = number_after(parts.front(), "");
  const auto of = number_after(parts.back(), "");
  ZP_CHECK(parts.size() == 2 && first && of && *first >= 1 && *first <= *of && *of <= 1'000'000,
           ErrorCode::config, "--slice is '" + text + "'", "it is K/N, the K-th of N parts",
           "use 1/4 to 4/4 for a quarter");
  return {static_cast<std::size_t>(*first - 1), static_cast<std::size_t>(*of)};
}

std::uint64_t seed_of(const std::string& text) {
  return text.empty() ? 1 : flag_number<std::uint64_t>(text, "--cover-seed");
}

}  // namespace

std::vector<std::string> covering_rows(const CaseFlags& flags, const VerifyOptions& options) {
  const Strength strength = strength_of(flags.cover);
  const Slice slice = slice_of(flags.slice);
  const std::uint64_t seed = seed_of(flags.cover_seed);
  const std::string workload = flags.patterns.empty() ? "byte_gpt_tiny" : flags.patterns.front();
  const bool known = std::ranges::find(workload_names(), workload) != workload_names().end();
  ZP_CHECK(known && flags.patterns.size() <= 1, ErrorCode::config,
           "--cover was given with the pattern '" + flags.patterns.back() + "'",
           "its rows are runs of one workload", "use byte_gpt_tiny, or no pattern");
  const RunSpace space(options, workload);
  const std::vector<CoveredRow> rows =
      covering_array(space, PossibleCombinations(space, strength), strength, seed);
  std::vector<std::string> ids;
  for (std::size_t i = slice.first; i < rows.size(); i += slice.of)
    ids.push_back(rows[i].spec.id());
  ZP_CHECK(!ids.empty(), ErrorCode::config,
           "--slice " + flags.slice + " has none of the " + std::to_string(rows.size()) + " rows",
           "nothing would be judged", "use fewer parts");
  return ids;
}

}  // namespace zeroproof::verification
