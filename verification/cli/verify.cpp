#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/experiment.hpp"
#include "verification/mpi_job.hpp"
#include "verification/progress.hpp"
#include "verification/run.hpp"

namespace zeroproof::verification {
namespace {

struct ReportTargets {
  bool text = false;
  std::vector<std::string> json_files;
};

/// Splits at commas that begin another target, so that file names may contain commas.
std::vector<std::string> split_targets(const std::vector<std::string>& values) {
  std::vector<std::string> words;
  for (std::string value : values) {
    for (std::size_t comma = value.rfind(','); comma != std::string::npos && comma > 0;
         comma = value.rfind(',', comma - 1)) {
      const std::string rest = value.substr(comma + 1);
      if (rest != "text" && rest.rfind("json:", 0) != 0) continue;
      words.push_back(rest);
      value.resize(comma);
    }
    words.push_back(value);
  }
  return words;
}

ReportTargets parse_targets(const std::vector<std::string>& values) {
  const std::vector<std::string> words = split_targets(values);
  if (words.empty()) return {true, {}};
  ReportTargets targets;
  for (const std::string& word : words) {
    if (word == "text") {
      targets.text = true;
    } else if (word.rfind("json:", 0) == 0 && word.size() > 5) {
      targets.json_files.push_back(word.substr(5));
    } else {
      fail(ErrorCode::config, "report '" + word + "' does not exist", "results must go somewhere",
           "use text, json:FILE, or both with a comma between");
    }
  }
  return targets;
}

/// Fails before hours of work rather than after: the folder of a report must exist or be creatable, and be
/// writable.
void check_target(const std::string& file) {
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  std::filesystem::path existing = folder;
  while (!std::filesystem::exists(existing, error) && existing.has_parent_path())
    existing = existing.parent_path();
  if (existing.empty()) existing = ".";
  const bool usable = std::filesystem::is_directory(existing, error) &&
                      ::access(existing.c_str(), W_OK) == 0 && !std::filesystem::is_directory(path, error);
  ZP_CHECK(usable, ErrorCode::config, "report file " + file + " cannot be written",
           "the results would be lost", "name a file in a folder you may write to");
}

void write_file(const std::string& file, const std::string& content) {
  const std::filesystem::path path(file);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << content;
  stream.close();
  ZP_CHECK(stream.good(), ErrorCode::io, "report file " + file + " could not be written",
           "the results are lost", "check the folder and the free space, and run again");
}

int verify(const CaseFlags& flags, const std::vector<std::string>& reports, bool strict) {
  const ReportTargets targets = parse_targets(reports);
  const VerifyOptions options = options_from(flags);
  const std::vector<CaseSpec> cases = selected_cases(options);
  if (cases.empty()) {
    const std::string& pattern = options.patterns.front();
    const bool one_word = pattern.find_first_of("*?/") == std::string::npos;
    const std::string meant = one_word ? "did you mean " + nearest(pattern, workload_names()) + "? " : "";
    std::fprintf(
        stderr,
        "zeroproof: no case matches '%s' (nothing would be judged); %sbuild/zeroproof list shows the "
        "case ids\n",
        pattern.c_str(), meant.c_str());
    return 4;
  }
  const bool root = mpi_job_rank() == 0;
  if (root) {
    for (const std::string& file : targets.json_files) check_target(file);
  }
  RunReport report;
  {
    ProgressBar bar;
    report = run_cases(options, cases, [&](double fraction, const std::string& what) {
      if (!inside_mpi_job()) bar.show(fraction, what);
    });
  }
  if (root) {
    for (const std::string& file : targets.json_files) write_file(file, to_json(report));
    if (targets.text)
      std::fputs(to_text(report, wants_colour(STDOUT_FILENO) && !inside_mpi_job()).c_str(), stdout);
    if (targets.text) {
      for (const std::string& file : targets.json_files) std::printf("report: %s\n", file.c_str());
    }
  }
  return exit_code(report, strict);
}

}  // namespace

void add_verify(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* command =
      app.add_subcommand("verify", "run cases and compare production with the reference, phase by phase");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(*command);
  const auto reports = std::make_shared<std::vector<std::string>>();
  const auto strict = std::make_shared<bool>(false);
  command->add_option("--report", *reports, "text, json:FILE, or both with a comma between (default: text)");
  command->add_flag("--strict", *strict, "mistrusted cases count as failed");
  command->callback([flags, reports, strict, &chosen] {
    chosen = [flags, reports, strict] { return verify(*flags, *reports, *strict); };
  });
}

}  // namespace zeroproof::verification
