#include "verification/report/report_files.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

bool begins_target(const std::string& word) {
  return word == "text" || word.rfind("json:", 0) == 0 || word.rfind("junit:", 0) == 0 ||
         word.rfind("html:", 0) == 0;
}

/// Splits at commas that begin another target, so that file names may contain commas.
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

/// True if the path is a folder that can be written, or could become one.
bool usable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path existing = folder;
  while (!std::filesystem::exists(existing, error) && existing.has_parent_path() &&
         existing.parent_path() != existing) {
    existing = existing.parent_path();
  }
  if (existing.empty() || !std::filesystem::exists(existing, error)) existing = ".";
  return std::filesystem::is_directory(existing, error) && ::access(existing.c_str(), W_OK) == 0;
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
  if (words.empty()) return {true, {}, {}, {}};
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
    } else {
      fail(ErrorCode::config, "report '" + word + "' does not exist", "results must go somewhere",
           "use text, json:FILE, junit:FILE, html:FILE, or several with commas between");
    }
  }
  return targets;
}

void check_report_file(const std::string& file) {
  const std::filesystem::path path(file);
  std::error_code error;
  const bool usable = path.has_filename() &&
                      usable_folder(path.has_parent_path() ? path.parent_path() : ".") &&
                      !std::filesystem::is_directory(path, error);
  ZP_CHECK(usable, ErrorCode::config, "report file " + file + " cannot be written",
           "the results would be lost", "name a file in a folder you may write to");
}

void check_not_input(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code error;  // one of them does not exist: they are two
    const bool same = !output.empty() && !input.empty() && std::filesystem::equivalent(output, input, error);
    ZP_CHECK(!same || error, ErrorCode::config, "file " + output + " is to be read and written",
             "what is in it would be lost", "name another file for what is written");
  }
}

void check_bundle_folder(const std::string& folder) {
  ZP_CHECK(usable_folder(folder), ErrorCode::config, "folder " + folder + " cannot be written",
           "failing cases would not be saved", "name a folder you may write to after --save-failing");
}

void write_report_file(const std::string& file, const std::string& content) {
  const std::filesystem::path path(file);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << content;
  stream.close();
  ZP_CHECK(stream.good(), ErrorCode::io, "report file " + file + " could not be written",
           "the results are lost", "check the folder and the free space, and run again");
}

}  // namespace zeroproof::verification
