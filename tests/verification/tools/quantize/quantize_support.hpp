#pragma once
// A small model and the command line of zeroproof quantize, for its tests.

#include <doctest.h>

#include <string>

#include "tests/verification/cli/cli_support.hpp"

namespace zeroproof::tests {

inline const std::string quantize_rules =
    source_folder() + "/verification/tools/quantize/examples/quantize_tiny.yaml";
inline const std::string quantize_text = source_folder() + "/verification/model/sample_text.txt";

/// A model after six steps, for all cases.
inline const std::string& quantize_model() {
  static const TemporaryFolder folder;
  static const std::string path = folder.file("tiny.safetensors");
  static const CliResult made = run_cli("train --workload byte_gpt_tiny --dump " + quoted(path));
  REQUIRE(made.exit_code == 0);
  return path;
}

inline std::string quantize_words(const std::string& model, const std::string& rules,
                                  const std::string& text, const std::string& out) {
  return "quantize " + quoted(model) + " --config " + quoted(rules) + " --calibrate " +
         quoted(text) + " -o " + quoted(out);
}

/// Exit code and message of a refused command line: one line.
inline void expect_quantize_refusal(const std::string& words, const std::string& sentence,
                                    int exit_code = 2) {
  const CliResult result = run_cli(words);
  CAPTURE(words);
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.find(sentence) != std::string::npos);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}

}  // namespace zeroproof::tests
