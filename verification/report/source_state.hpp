#pragma once
// The sources that a program was built from, and the state of their checkout: a result describes a
// commit only if both are known and agree.

#include <string>
#include <vector>

namespace zeroproof::verification {

struct SourceState {
  std::string program;         ///< "zeroproof-faults"
  std::string program_digest;  ///< of its file
  std::string built_from;      ///< git's hash of the sources' contents at the last build, or ""
  std::string tree;            ///< the checkout; "" for an installed program
  std::string sources;         ///< the same hash of the checkout now; "" without git
  std::string commit;          ///< HEAD; "" without git
  /// Lines of git status: changed tracked files, and source files that are not tracked.
  std::vector<std::string> changed;

  bool operator==(const SourceState&) const = default;

  /// Hash of the sources that results of this program are compared with: those of the checkout, of
  /// an installed program those that it was built from.
  const std::string& current() const { return tree.empty() ? built_from : sources; }
};

/// Written by stamp_sources.cmake for every program; main() passes it to set_source_stamp().
extern const char* const source_stamp;
void set_source_stamp(const char* stamp);

/// State of this program and of its checkout: ZP_TREE, else the one it was built in.
SourceState source_state();

/// Why results of this program describe no commit: changed files, a program of other sources, no
/// git; "" if they do.
std::string source_problem(const SourceState& state);

}  // namespace zeroproof::verification
