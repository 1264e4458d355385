#pragma once
// Ids consist of parts between slashes: "op/adamw_update/host/x86-64-v3/fill:ties". A pattern
// selects ids by wildcards or by their first parts. All suites parse both here.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroproof::verification {

/// The texts between the slashes: at least one part; parts may be empty.
std::vector<std::string> id_parts(const std::string& id);

/// The number after a prefix of a part: 2 for "stage2" after "stage".
std::optional<std::int64_t> number_after(const std::string& part, std::string_view prefix);

/// True if a pattern has * or ?.
bool is_wild(const std::string& pattern);

/// Shell-style match with * and ?; a pattern without them also matches every id that contains it.
bool matches(const std::string& pattern, const std::string& id);

/// True if a pattern is `word`, or has it as its first part.
bool begins_with(const std::string& pattern, const std::string& word);

/// A part of every id of a suite.
struct IdPart {
  std::string what;  ///< "instruction set"
  /// The valid texts after the given parts; empty: the parser of the part checks it.
  std::function<std::vector<std::string>(const std::vector<std::string>& before)> known;
  bool with_settings = false;  ///< a + and settings may follow the text, as in a recipe
};

/// The parts of a suite's ids, beginning with its name.
using IdGrammar = std::vector<IdPart>;

/// Checks the parts of a pattern before its first wildcard. prefix: the last part may be the
/// beginning of a valid text. Errors (ErrorCode::config): a part that is invalid in its position.
void check_parts(const std::string& pattern, const IdGrammar& grammar, bool prefix = false);

/// The ids a pattern selects: with * or ? the usual ids that match; for a complete id that id,
/// usual or not; otherwise the usual ids that begin with its parts. Errors (ErrorCode::config): a
/// part that is invalid in its position.
std::vector<std::string> select_ids(const std::string& pattern, const IdGrammar& grammar,
                                    const std::function<std::vector<std::string>()>& usual);

}  // namespace zeroproof::verification
