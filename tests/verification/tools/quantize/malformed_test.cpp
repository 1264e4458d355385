// Malformed files: exit 2, one sentence with the line, nothing on standard output.

#include <doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/quantize/quantize_support.hpp"
#include "verification/tools/quantize/yaml.hpp"

namespace malformed_test {

namespace {

using namespace zeroproof::tests;

struct Malformed {
  std::string text, words;
  int line = 0;
};

std::string decoded(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size();
    bytes += escaped ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
    if (escaped) i += 2;
  }
  return bytes;
}

std::vector<Malformed> all_malformed() {
  std::istringstream lines(
      read_file(source_folder() + "/tests/verification/tools/quantize/malformed.txt"));
  std::vector<Malformed> all;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      const std::size_t bar = line.find(" | ");
      all.push_back({"", line.substr(bar + 3), std::stoi(line.substr(4, bar - 4))});
    } else if (!all.empty()) {
      all.back().text += decoded(line) + "\n";
    }
  }
  return all;
}

CliResult run_on(const TemporaryFolder& folder, const std::string& text,
                 const std::string& flags = "") {
  const std::string file = folder.write("q.yaml", text);
  return run_cli("quantization " + quoted(file) + " --model byte_gpt_tiny " + flags);
}

}  // namespace

TEST_CASE("malformed file: the error is one sentence with the line") {
  const TemporaryFolder folder;
  const std::vector<Malformed> all = all_malformed();
  CHECK(all.size() >= 100);
  const std::string json = folder.file("out.json");
  for (const Malformed& one : all) {
    CAPTURE(one.text);
    const CliResult result = run_on(folder, one.text, "--json " + quoted(json));
    expect_refusal(result, one.words);
    CHECK(result.err.find("q.yaml:" + std::to_string(one.line) + ": ") != std::string::npos);
    CHECK(result.err.find('\x1b') == std::string::npos);
    CHECK(result.err.size() < 1000);
    CHECK_FALSE(std::filesystem::exists(json));
  }
}

TEST_CASE("quantize refuses every one of them too, and writes nothing") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors"), json = folder.file("q.json");
  for (const Malformed& one : all_malformed()) {
    CAPTURE(one.text);
    const std::string file = folder.write("q.yaml", one.text);
    const CliResult result = run_cli(quantize_words(quantize_model(), file, quantize_text, out) +
                                     " --json " + quoted(json));
    expect_refusal(result, "q.yaml:" + std::to_string(one.line) + ": ");
    CHECK_FALSE(std::filesystem::exists(out));
    CHECK_FALSE(std::filesystem::exists(json));
  }
}

TEST_CASE("files that are no files of rules") {
  const TemporaryFolder folder;
  const std::string flags = " --model byte_gpt_tiny";
  expect_refusal("quantization " + quoted(folder.file("none.yaml")) + flags,
                 "none.yaml cannot be read");
  expect_refusal("quantization /tmp" + flags, "/tmp is a directory");
  expect_refusal("quantization /dev/zero" + flags, "is a device or a pipe");
  std::string binary;
  for (int i = 0; i < 4096; ++i) binary += static_cast<char>(i * 7);
  expect_refusal(run_on(folder, binary), "q.yaml:1: there is a byte 0x00");
  expect_refusal(run_on(folder, std::string(2 << 20, '#')), "has more than 1048576 bytes");
  expect_refusal(run_on(folder, std::string(1 << 20, '[')), "nested more than 16 deep");
  expect_refusal(run_on(folder, "\xFE\xFF" + std::string("\0c\0o", 4)), "q.yaml:1: ");
  std::string longest(1000000, 'x');
  longest.append(": 1\n");
  expect_refusal(run_on(folder, longest), "q.yaml:1: this is no YAML");
}

TEST_CASE("a word of a file has no effect on a terminal") {
  const TemporaryFolder folder;
  const CliResult shown = run_on(
      folder,
      "configs:\n  \"name\": {format: bf16}\nmatchers:\n"
      "  m: {type: glob, pattern: \"*[\\e\\a\\x7f\\u202ea]*\", config: name, enabled: true}\n");
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("\\x1b") != std::string::npos);
  for (const char c : {'\x1b', '\x07', '\x7f'}) CHECK(shown.out.find(c) == std::string::npos);
  CHECK(shown.out.find("\xE2\x80\xAE") == std::string::npos);
  expect_refusal(run_on(folder, "quant_cfg:\n- {\"\\e[31m\": 1}\n"), "\\x1b[31m");
  expect_refusal(run_on(folder, "quant_cfg:\n- {quantizer_path: \"\\e[31m\", enable: false}\n"),
                 "\\x1b[31m");
}

}  // namespace malformed_test
