// Truncated files, at every command that reads tensors: one sentence, no crash.

#include <doctest.h>

#include <set>

#include "tests/verification/cli/cli_support.hpp"

namespace {

using namespace zeroproof::tests;

/// Lengths around the parts of a safetensors file: the word that counts its header, the header, the numbers.
std::set<std::size_t> lengths_of(const std::string& bytes) {
  std::size_t header = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    header |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  REQUIRE(8 + header < bytes.size());
  return {0,
          1,
          7,
          8,
          9,
          8 + header / 2,
          7 + header,
          8 + header,
          9 + header,
          bytes.size() / 2,
          bytes.size() - 1};
}

/// The shell text of a command with the truncated file as FILE.
void refuse_truncated(const TemporaryFolder& folder, const std::string& whole,
                      const std::string& command) {
  const std::string bytes = read_file(whole);
  for (const std::size_t length : lengths_of(bytes)) {
    std::string line = command;
    line.replace(line.find("FILE"), 4,
                 quoted(folder.write("short.safetensors", bytes.substr(0, length))));
    CAPTURE(line);
    CAPTURE(length);
    expect_refusal(run_cli(line), "short.safetensors");
  }
}

}  // namespace

TEST_CASE("truncated files: every command that reads tensors refuses them") {
  const TemporaryFolder folder;
  const std::string call = folder.file("call.safetensors"), dump = folder.file("dump.safetensors");
  const std::string run =
      "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 0 --world self --steps 2";
  REQUIRE(run_cli("gen adamw_update --numel 100 -o " + quoted(call)).exit_code == 0);
  REQUIRE(run_cli("verify " + run + " --dump " + quoted(dump)).exit_code == 0);
  refuse_truncated(folder, call, "judge FILE " + quoted(call));
  refuse_truncated(folder, call, "judge " + quoted(call) + " FILE");
  refuse_truncated(folder, call, "diff FILE " + quoted(call));
  refuse_truncated(folder, dump, "diff " + quoted(dump) + " FILE");
  refuse_truncated(folder, call, "identify FILE");
  refuse_truncated(folder, dump, "verify recorded --gradients FILE");
}
