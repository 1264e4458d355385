#pragma once
// Ids are parts between slashes: "op/adamw_update/host/x86-64-v3/fill:ties". A pattern selects ids by wildcards or by
// their first parts. All suites read both here.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroproof::verification {

/// What stands between the slashes: at least one part, any of them may be empty.
std::vector<std::string> id_parts(const std::string& id);

/// The number a part holds after a prefix: 2 for "stage2" after "stage".
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
  /// The texts that can stand here after those parts; none: whoever reads the part refuses it.
  std::function<std::vector<std::string>(const std::vector<std::string>& before)> known;
};

/// What a suite's ids consist of, beginning with its name.
using IdGrammar = std::vector<IdPart>;

/// The ids a pattern selects: with * or ? the usual ones that match; a complete id itself, usual or not; else the usual
/// ones that begin with its parts. Errors (ErrorCode::config): a part that cannot stand where it stands.
std::vector<std::string> select_ids(const std::string& pattern, const IdGrammar& grammar,
                                    const std::function<std::vector<std::string>()>& usual);

}  // namespace zeroproof::verification
