// golden_digests [--threads N]                  prints the digests of this build
// golden_digests --check FILE [--threads N]     compares them with a file: 0 equal, 1 not
// golden_digests --update FILE                  rewrites the file. Under the same contract version
//                                               digests are added and dropped, never changed: bits
//                                               change with the version (CONTRIBUTING.md).
// Exit status: 0 equal, 1 not equal (also: two implementations differ), 2 bad usage or unusable
// file.

#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "golden_rows.hpp"
#include "verification/cli/program/contract_version.hpp"

namespace {

using namespace zeroproof;

/// Name to text of the digest; "contract" is the version.
using Digests = std::map<std::string, std::string>;

Digests computed(int threads) {
  Digests digests{{"contract", std::to_string(verification::contract_version)}};
  const auto add = [&](const std::vector<golden::Row>& rows) {
    for (const golden::Row& row : rows) digests[row.name] = to_hex(row.digest);
  };
  add(golden::input_rows());
  add(golden::operation_rows(threads));
  add(golden::other_rows(threads));
  add(golden::fusion_rows(threads));
  add(golden::trajectory_rows(threads));
  return digests;
}

std::string to_text(const Digests& digests) {
  std::string text;
  for (const auto& [name, digest] : digests) text += name + " " + digest + "\n";
  return text;
}

/// Lines "NAME DIGEST", the digest being the last word; lines that start with # are comments.
Digests read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + " cannot be read");
  Digests digests;
  for (std::string line; std::getline(stream, line);) {
    const std::size_t blank = line.rfind(' ');
    if (line.empty() || line[0] == '#' || blank == std::string::npos) continue;
    if (!digests.emplace(line.substr(0, blank), line.substr(blank + 1)).second) {
      throw std::runtime_error(file + " has two lines for " + line.substr(0, blank));
    }
  }
  return digests;
}

/// One line per difference.
std::vector<std::string> differences(const Digests& file, const Digests& now) {
  std::vector<std::string> lines;
  for (const auto& [name, digest] : now) {
    const auto known = file.find(name);
    if (known == file.end()) lines.push_back("missing in the file: " + name + " " + digest);
    if (known != file.end() && known->second != digest) {
      lines.push_back("differs: " + name + " is " + digest + " and was " + known->second);
    }
  }
  for (const auto& [name, digest] : file) {
    if (now.count(name) == 0) lines.push_back("only in the file: " + name);
  }
  return lines;
}

int check(const std::string& file, const Digests& now) {
  const Digests known = read(file);
  const std::vector<std::string> lines = differences(known, now);
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  if (lines.empty()) {
    std::printf("%zu digests equal those of %s\n", now.size() - 1, file.c_str());
    return 0;
  }
  std::printf(
      "%zu lines differ from %s (a bit of a result or the list of digests has changed); "
      "if that "
      "is wanted, see CONTRIBUTING.md, Commits, and run golden_digests --update %s\n",
      lines.size(), file.c_str(), file.c_str());
  return 1;
}

/// True if digests changed only with a new contract version, or were only added or dropped.
bool may_replace(const Digests& known, const Digests& now) {
  if (known.count("contract") == 0 || known.at("contract") != now.at("contract")) return true;
  for (const auto& [name, digest] : known) {
    const auto other = now.find(name);
    if (other != now.end() && other->second != digest) return false;
  }
  return true;
}

int update(const std::string& file, const Digests& now) {
  const bool exists = std::ifstream(file).good();
  if (exists && !may_replace(read(file), now)) {
    for (const std::string& line : differences(read(file), now)) std::printf("%s\n", line.c_str());
    std::fprintf(
        stderr,
        "golden_digests: digests of contract version %s have changed (published bits never change "
        "under one version); raise contract_version and list the change under Numerics in "
        "CHANGELOG.md, "
        "or, if only the digest computation changed, remove the file first\n",
        now.at("contract").c_str());
    return 1;
  }
  std::ofstream stream(file, std::ios::trunc);
  stream << "# XXH3-128 of results that must not change: written by golden_digests --update, "
            "checked by "
            "golden/check\n"
            "# and, over compilers and optimisation levels, by golden/compilers.\n"
         << to_text(now);
  stream.close();
  if (!stream.good()) throw std::runtime_error(file + " cannot be written");
  std::printf("%s: %zu digests of contract version %s\n", file.c_str(), now.size() - 1,
              now.at("contract").c_str());
  return 0;
}

int usage() {
  std::fprintf(stderr, "usage: golden_digests [--check FILE | --update FILE] [--threads 1..64]\n");
  return 2;
}

}  // namespace

int main(int count, char** words) {
  std::string mode, file;
  int threads = 2;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (i + 1 == count) return usage();
    const std::string value = words[++i];
    if ((word == "--check" || word == "--update") && mode.empty()) {
      mode = word;
      file = value;
    } else if (word == "--threads") {
      const auto [rest, error] =
          std::from_chars(value.data(), value.data() + value.size(), threads);
      if (error != std::errc{} || *rest != '\0' || threads < 1 || threads > 64) return usage();
    } else {
      return usage();
    }
  }
  Digests now;
  try {
    now = computed(threads);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_digests: %s\n", error.what());
    return 1;
  }
  try {
    if (mode == "--check") return check(file, now);
    if (mode == "--update") return update(file, now);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_digests: %s\n", error.what());
    return 2;
  }
  std::fputs(to_text(now).c_str(), stdout);
  return 0;
}
