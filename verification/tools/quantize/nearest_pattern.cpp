// A suggestion for a pattern without a match.

#include <algorithm>
#include <set>

#include "verification/cases/config/nearest.hpp"
#include "verification/tools/quantize/assignment.hpp"
#include "verification/tools/quantize/glob.hpp"

namespace zeroproof {
namespace {

constexpr std::size_t most_candidates = 4000;

/// Every run of neighbouring parts of the paths: "mlp", "mlp.up", "block0.mlp".
std::vector<std::string> runs_of_parts(const std::vector<std::string>& paths) {
  std::set<std::string> runs;
  for (const std::string& path : paths) {
    std::size_t begin = 0;
    for (bool more = true; more && runs.size() < most_candidates;) {
      std::size_t end = path.find('.', begin);
      const std::size_t next = end;
      for (; end != std::string::npos; end = path.find('.', end + 1))
        runs.insert(path.substr(begin, end - begin));
      runs.insert(path.substr(begin));
      more = next != std::string::npos;
      begin = next + 1;
    }
    if (runs.size() >= most_candidates) break;
  }
  return {runs.begin(), runs.end()};
}

bool matches_any(const std::string& pattern, const std::vector<std::string>& paths) {
  const Glob glob(pattern);
  return std::any_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return glob.matches(path); });
}

}  // namespace

std::string nearest_pattern(const std::string& pattern, const std::vector<std::string>& paths) {
  // A * forgotten at an end.
  for (const std::string& open : {"*" + pattern, pattern + "*", "*" + pattern + "*"}) {
    if (matches_any(open, paths)) return open;
  }
  // The text between the wildcards at its ends, with typing errors.
  const std::size_t begin = pattern.find_first_not_of('*');
  if (begin == std::string::npos) return "";
  const std::size_t end = pattern.find_last_not_of('*') + 1;
  std::string core = pattern.substr(begin, end - begin);
  const std::size_t before = core.front() == '.' ? 1 : 0;
  const std::size_t behind = core.size() > 1 && core.back() == '.' ? 1 : 0;
  core = core.substr(before, core.size() - before - behind);
  const std::vector<std::string> runs = runs_of_parts(paths);
  std::string near;
  for (const std::string& run : runs) {
    if (lower_case(run) == lower_case(core)) near = run;
  }
  if (near.empty()) near = nearest(core, runs);
  if (near.empty()) return "";
  const std::string meant = pattern.substr(0, begin + before) + near + pattern.substr(end - behind);
  const std::string first =
      pattern.substr(0, begin) + near + pattern.substr(end - behind);  // no text before it
  for (const std::string& open : {meant, first, "*" + meant, meant + "*", "*" + meant + "*"}) {
    if (matches_any(open, paths)) return open;
  }
  return "";
}

}  // namespace zeroproof
