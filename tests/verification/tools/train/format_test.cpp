// Checkpoints that earlier versions wrote are read and continued, and the new steps audited:
// earlier_formats/README.md.

#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/cli/cli_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> earlier_formats() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(
           source_folder() + "/tests/verification/tools/train/earlier_formats")) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// "ed24b1f2...": a file of one word.
std::string first_word(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  REQUIRE(in.good());
  return word;
}

void succeeds(const std::string& words, const std::string& must_say) {
  CAPTURE(words);
  const CliResult result = run_cli(words);
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find(must_say) != std::string::npos);
}

}  // namespace

TEST_CASE("checkpoints of every earlier format are read and continued, and the new steps audited") {
  REQUIRE(earlier_formats().size() == 1);  // one more for every version
  for (const fs::path& earlier : earlier_formats()) {
    CAPTURE(earlier.string());
    const TemporaryFolder folder = TemporaryFolder::in_memory();
    const std::string saved = quoted(folder.file("saved"));
    fs::copy(earlier / "saved", folder.file("saved"), fs::copy_options::recursive);
    succeeds("checkpoint inspect " + saved, "step-00000003");
    succeeds("checkpoint verify " + saved, "step-00000003");
    const std::string log = folder.file("saved/log.jsonl");
    expect_refusal(run_cli("audit " + saved), "an earlier version wrote it", 7);
    const std::string state = first_word(earlier / "state_of_step_6.txt");
    const std::string resume =
        "train " + quoted((earlier / "run.toml").string()) +
        " --workload byte_gpt_tiny --dtype fp16 --norm exact --world threads:4 --stage 1 --steps 6 "
        "--checkpoint " +
        saved + " --resume";
    expect_refusal(resume, "or one of an earlier version); move it away");
    fs::rename(log, folder.file("log.jsonl"));
    succeeds(resume, "state " + state);
    succeeds("checkpoint verify " + saved, "step-00000006");
    succeeds("audit " + saved + " --world self", "steps 4 to 6, ");
  }
}

TEST_CASE("checkpoints name no place for a text that every program has") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const auto log_of = [&](const std::string& name, const std::string& words) {
    const std::string path = folder.file(name);
    succeeds("train --workload byte_gpt_tiny --steps 1 " + words + "--checkpoint " + quoted(path),
             "state ");
    std::ifstream in(path + "/log.jsonl");
    std::string first;
    std::getline(in, first);
    return first;
  };
  CHECK(log_of("own", "").find("\"text_file\":\"\"") != std::string::npos);
  const std::string text = folder.file("text");
  fs::copy(source_folder() + "/verification/model/sample_text.txt", text);
  CHECK(log_of("given", "--text " + quoted(text) + " ").find("\"text_file\":\"" + text + "\"") !=
        std::string::npos);
}
