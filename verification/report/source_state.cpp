#include "verification/report/source_state.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "common/base/error.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/cli/program/file_digest.hpp"
#include "verification/cli/program/source_dir.hpp"
#include "verification/cli/program/text_lines.hpp"

namespace zeroproof::verification {
namespace {

std::string& stamp_of_program() {
  static std::string stamp;
  return stamp;
}

/// Lines of a shell command's output. Errors (ErrorCode::io): it fails.
std::vector<std::string> output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(("{ " + command + "; } 2>/dev/null").c_str(), "r");
  std::string text;
  char block[4096];
  for (std::size_t n = 0; pipe != nullptr && (n = std::fread(block, 1, sizeof(block), pipe)) > 0;)
    text.append(block, n);
  ZP_CHECK(pipe != nullptr && ::pclose(pipe) == 0, ErrorCode::io, "'" + command + "' failed",
           "the state of the sources is unknown", "install git, or use a git checkout");
  return lines_of(text);
}

/// Fills in everything that git reports of state.tree. Errors (ErrorCode::io): it reports nothing.
void ask_git(SourceState& state) {
  const std::string git = "cd " + shell_word(state.tree) + " && git ";
  output_of(git + "ls-files --error-unmatch CMakeLists.txt");  // not only inside a repository
  const std::string commit = output_of(git + "rev-parse HEAD").at(0);
  state.sources = output_of(git + "ls-files -- " ZP_SOURCE_PATTERNS
                                  " | git hash-object --stdin-paths | git hash-object --stdin")
                      .at(0);
  state.changed = output_of(git + "status --porcelain --untracked-files=no");
  for (const std::string& file :
       output_of(git + "ls-files --others --exclude-standard -- " ZP_SOURCE_PATTERNS))
    state.changed.push_back("?? " + file);
  state.commit = commit;
}

/// The checkout, "" for an installed program.
std::string tree_of_program() {
  const char* const named = std::getenv("ZP_TREE");
  if (named != nullptr && *named != '\0') return named;
  const std::string folder = source_dir();
  const bool installed = !std::filesystem::exists(folder + "/CMakeLists.txt");
  return installed ? "" : folder;
}

}  // namespace

void set_source_stamp(const char* stamp) { stamp_of_program() = stamp; }

SourceState source_state() {
  SourceState state;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  state.program = program.filename().string();
  state.program_digest = file_digest("/proc/self/exe");
  state.built_from = stamp_of_program();
  state.tree = tree_of_program();
  if (state.tree.empty()) return state;
  try {
    ask_git(state);
  } catch (const std::exception&) {
    state.commit.clear();  // unknown: source_problem() reports it
  }
  return state;
}

std::string source_problem(const SourceState& state) {
  if (state.tree.empty()) return "";
  if (state.commit.empty())
    return state.tree + " is no git checkout, or there is no git: the commit is unknown";
  if (!state.changed.empty()) {
    const std::size_t count = state.changed.size();
    return "the tree is dirty: " + std::to_string(count) + (count == 1 ? " file" : " files") +
           " changed since commit " + state.commit.substr(0, 12) + ", such as '" +
           state.changed.front() + "'";
  }
  if (state.built_from != state.sources)
    return "the program was built from other sources than those in " + state.tree;
  return "";
}

}  // namespace zeroproof::verification
