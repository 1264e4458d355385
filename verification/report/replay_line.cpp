// The shell lines that run one case again, from any folder.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "verification/cases/run_plan.hpp"

namespace zeroproof::verification {
namespace {

/// Path of this program, or its usual name if another program runs the harness.
std::string program(const VerifyOptions& options) {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && path.compare(slash + 1, 9, "zeroproof") == 0) return path;
  return options.fault.empty() ? "zeroproof" : "zeroproof-faults";
}

}  // namespace

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./:=,+") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string replay_line(const VerifyOptions& options, const std::string& id) {
  std::string line;
  const char* isa = std::getenv("ZP_ISA");
  if (isa != nullptr && *isa != '\0') line += "ZP_ISA=" + shell_word(isa) + " ";
  line += shell_word(program(options)) + " replay " + shell_word(id);
  for (const std::string& flag : options.replay_flags) line += " " + shell_word(flag);
  return line;
}

std::string bundle_line(const VerifyOptions& options, const std::string& folder) {
  std::string line = shell_word(program(options)) + " replay " +
                     shell_word(std::filesystem::absolute(folder).string());
  for (std::size_t i = 0; i + 1 < options.replay_flags.size(); i += 2) {
    if (options.replay_flags[i] == "--plugin")
      line += " --plugin " + shell_word(options.replay_flags[i + 1]);
  }
  return line;
}

}  // namespace zeroproof::verification
