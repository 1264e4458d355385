#include "verification/report/report_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/io/files/replacing_file.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/report/own_descriptor.hpp"

namespace zeroproof::verification {
namespace {

namespace fs = std::filesystem;

bool begins_target(const std::string& word) {
  return word == "text" || word == "github" || word.rfind("github:", 0) == 0 ||
         word.rfind("json:", 0) == 0 || word.rfind("junit:", 0) == 0 || word.rfind("html:", 0) == 0;
}

/// Splits at commas followed by another target, so that file names may contain commas.
std::vector<std::string> split_targets(const std::vector<std::string>& values) {
  std::vector<std::string> words;
  for (std::string value : values) {
    for (std::size_t comma = value.rfind(','); comma != std::string::npos && comma > 0;
         comma = value.rfind(',', comma - 1)) {
      const std::string rest = value.substr(comma + 1);
      if (!begins_target(rest)) continue;
      words.push_back(rest);
      value.resize(comma);
    }
    words.push_back(value);
  }
  return words;
}

/// The nearest folder of a path that exists.
fs::path existing_folder(const fs::path& folder) {
  std::error_code error;
  fs::path existing = folder.empty() ? fs::path(".") : folder;
  while (!fs::exists(existing, error)) {
    if (!existing.has_parent_path() || existing.parent_path() == existing) return ".";
    existing = existing.parent_path();
  }
  return existing;
}

bool names_are_short(const fs::path& path) {
  std::size_t longest = 0;
  for (const fs::path& name : path) longest = std::max(longest, name.native().size());
  return longest <= NAME_MAX && path.native().size() < PATH_MAX;
}

/// Why no file can be created in the folder (or in the nearest existing one); "" if it can. Creates
/// a file: access() does not detect every reason, such as a full disk.
std::string refusal_of(const fs::path& folder) {
  if (!names_are_short(folder)) return std::strerror(ENAMETOOLONG);
  const fs::path existing = existing_folder(folder);
  std::error_code error;
  if (!fs::is_directory(existing, error)) return std::strerror(ENOTDIR);
  errno = 0;
  try {
    // removed again at once
    const ReplacingFile can_be_written((existing / ".zeroproof").string());
  } catch (const Error& refused) {
    return errno != 0 ? std::strerror(errno) : refused.what();
  }
  return "";
}

/// A device, a pipe, or an open descriptor of this process: written in place, not replaced.
bool is_written_in_place(const fs::path& path) {
  if (own_descriptor(path.string())) return true;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// By name, as decided by check_report_file: judged code may put something else there meanwhile.
std::map<std::string, bool>& decided_in_place() {
  static std::map<std::string, bool> decisions;
  return decisions;
}

bool is_open_for_writing(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/// Appends.
bool write_to(int descriptor, Span<const char> content) {
  if (std::fflush(nullptr) != 0) return false;
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    content = content.subspan(count);
  }
  return true;
}

void write_in_place(const std::string& file, const std::string& content) {
  bool written = false;
  if (const auto descriptor = own_descriptor(file)) {
    written = write_to(*descriptor, content);
  } else {
    std::ofstream stream(file, std::ios::binary);
    stream << content;
    stream.close();
    written = stream.good();
  }
  ZP_CHECK(written, ErrorCode::io, "report file " + file + " could not be written",
           "the results are lost", "use another file, and run again");
}

/// "html:out.html" for "out.html", "json:out" for "jason:out"; "" if no kind is near.
std::string intended_report(const std::string& word) {
  if (word.starts_with("text,")) {
    const std::string rest = intended_report(word.substr(5));
    return rest.empty() ? "" : "text," + rest;
  }
  const std::size_t colon = word.find(':');
  if (colon != std::string::npos) {
    const std::string kind = nearest(word.substr(0, colon), {"json", "junit", "html", "github"});
    return kind.empty() || colon + 1 == word.size() ? "" : kind + word.substr(colon);
  }
  for (const auto& [ending, kind] :
       {std::pair{".json", "json:"}, std::pair{".xml", "junit:"}, std::pair{".html", "html:"}}) {
    if (word.ends_with(ending)) return kind + word;
  }
  return nearest(word, {"text", "github"});
}

}  // namespace

std::vector<std::string> ReportTargets::files() const {
  std::vector<std::string> all = json_files;
  all.insert(all.end(), junit_files.begin(), junit_files.end());
  all.insert(all.end(), html_files.begin(), html_files.end());
  return all;
}

ReportTargets parse_targets(const std::vector<std::string>& values) {
  const std::vector<std::string> words = split_targets(values);
  if (words.empty()) return {true, {}, {}, {}, {}};
  ReportTargets targets;
  for (const std::string& word : words) {
    if (word == "text") {
      targets.text = true;
    } else if (word.rfind("json:", 0) == 0 && word.size() > 5) {
      targets.json_files.push_back(word.substr(5));
    } else if (word.rfind("junit:", 0) == 0 && word.size() > 6) {
      targets.junit_files.push_back(word.substr(6));
    } else if (word.rfind("html:", 0) == 0 && word.size() > 5) {
      targets.html_files.push_back(word.substr(5));
    } else if (word == "github" || (word.rfind("github:", 0) == 0 && word.size() > 7)) {
      targets.github = word.size() > 7 ? word.substr(7) : "";
      ZP_CHECK(targets.github->empty() || fs::is_regular_file(*targets.github), ErrorCode::config,
               "report '" + word + "' names no file", "annotations are shown at a source",
               "name your kernel's source, or use github");
    } else {
      const std::string meant = intended_report(word);
      fail(
          ErrorCode::config, "report '" + word + "' does not exist", "it is not a kind of report",
          meant.empty()
              ? "use text, json:FILE, junit:FILE, html:FILE, github, or several with commas between"
              : "did you mean " + meant + "?");
    }
  }
  return targets;
}

void check_report_file(const std::string& file) {
  const fs::path path(file);
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  std::string refusal;
  if (!path.has_filename() || path.filename() == "." || path.filename() == "..")
    refusal = "it is not a file name";
  if (file == "-") refusal = "use /dev/stdout";
  if (fs::is_directory(there)) refusal = std::strerror(EISDIR);
  if (!names_are_short(path)) refusal = std::strerror(ENAMETOOLONG);
  const auto descriptor = own_descriptor(file);
  if (descriptor && !is_open_for_writing(*descriptor)) refusal = std::strerror(EBADF);
  if (refusal.empty() && !descriptor && fs::exists(there) && ::access(path.c_str(), W_OK) != 0)
    refusal = std::strerror(errno);
  if (refusal.empty() && !is_written_in_place(path)) refusal = refusal_of(path.parent_path());
  ZP_CHECK(refusal.empty(), ErrorCode::config,
           "report file " + file + " cannot be written: " + refusal, "the results would be lost",
           "use a file in a writable folder");
  decided_in_place()[file] = is_written_in_place(path);
}

void check_not_input(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code error;  // one of them does not exist, so they differ
    const bool same = !output.empty() && !input.empty() && fs::equivalent(output, input, error);
    ZP_CHECK(!same || error, ErrorCode::config, "file " + output + " is both input and output",
             "its content would be lost", "use another file for the output");
  }
}

void check_bundle_folder(const std::string& folder) {
  const std::string refusal = refusal_of(folder);
  ZP_CHECK(refusal.empty(), ErrorCode::config,
           "folder " + folder + " cannot be written: " + refusal,
           "failing cases would not be saved", "use a writable folder after --save-failing");
}

void write_report_file(const std::string& file, const std::string& content) {
  const fs::path path(file);
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (is_written_in_place(path)) {
    const auto decided = decided_in_place().find(file);
    if (decided == decided_in_place().end() || decided->second)
      return write_in_place(file, content);
    if (!fs::is_directory(path, error)) fs::remove(path, error);
  }
  ReplacingFile whole(file);
  whole.write(0, std::as_bytes(Span<const char>(content)));
  whole.commit();
}

}  // namespace zeroproof::verification
