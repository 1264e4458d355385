// Folders that are not a checkpoint, or not the expected one, and files that are not a state of it,
// with every command that reads them: one sentence, exit 7 if a file is the cause, and nothing
// written.

#include <doctest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "tests/verification/cli/cli_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

/// Every path below a folder, and the content of files; "" for all others.
std::map<std::string, std::string> content_below(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool file = entry.is_regular_file() && !entry.is_symlink();
    content[entry.path().string()] = file ? read_file(entry.path()) : "";
  }
  return content;
}

std::string train(const std::string& words, const std::string& folder) {
  return "train --workload byte_gpt_tiny --dtype fp16 " + words + " --checkpoint " + quoted(folder);
}

/// A run of three ranks with checkpoints of steps 2 and 4, and a state in a file.
class Saved {
 public:
  Saved() : folder_(TemporaryFolder::in_memory()) {
    REQUIRE(run_cli(train("--world threads:3 --stage 2 --steps 4 --save-every 2", file("good")))
                .exit_code == 0);
    REQUIRE(run_cli("checkpoint export " + quoted(file("good")) + " -o " + quoted(file("state")))
                .exit_code == 0);
  }

  std::string file(const std::string& name) const { return folder_.file(name); }

  /// A copy of the run, whose step 4 is damaged.
  std::string spoilt(const std::function<void(const fs::path& newest)>& act) const {
    fs::remove_all(file("bad"));
    fs::copy(file("good"), file("bad"), fs::copy_options::recursive);
    act(fs::path(file("bad")) / "step-00000004");
    return file("bad");
  }

  /// Every command that reads a checkpoint, except verify, which reports errors on standard output.
  std::map<std::string, std::string> readers(const std::string& path) const {
    const std::string out = " -o " + quoted(file("out"));
    return {
        {"inspect", "checkpoint inspect " + quoted(path)},
        {"reshard", "checkpoint reshard " + quoted(path) + " --world threads:2" + out},
        {"diff", "checkpoint diff " + quoted(file("good")) + " " + quoted(path)},
        {"export", "checkpoint export " + quoted(path) + out},
        {"import", "checkpoint import " + quoted(file("state")) + " --like " + quoted(path) + out}};
  }

  void expect_refused(const std::string& words, const std::string& says, int code) const {
    CAPTURE(words);
    const auto before = content_below(file(""));
    expect_refusal(run_cli(words), says, code);
    CHECK(content_below(file("")) == before);
  }

 private:
  TemporaryFolder folder_;
};

/// An edit with recomputed hashes.
void edit_manifest(const fs::path& checkpoint,
                   const std::function<void(CheckpointManifest&)>& edit) {
  const fs::path path = checkpoint / "manifest.json";
  CheckpointManifest manifest = parse_manifest(read_file(path), path.string());
  edit(manifest);
  std::ofstream(path, std::ios::binary) << manifest_text(manifest);
}

const char* const shard = "rank-00001.safetensors";

}  // namespace

TEST_CASE("bad checkpoints: every kind of damage to a file is exit 7 for every reader") {
  const Saved saved;
  struct Row {
    const char* says;
    std::function<void(const fs::path&)> act;
  };
  const Row rows[] = {
      {"rank-00001.safetensors cannot be opened: No such file",
       [](const fs::path& at) { fs::remove(at / shard); }},
      {"rank-00001.safetensors cannot be opened: Too many levels",
       [](const fs::path& at) {
         fs::rename(at / shard, at.parent_path() / "elsewhere");
         fs::create_symlink("../elsewhere", at / shard);
       }},
      {"rank-00001.safetensors is not a regular file",
       [](const fs::path& at) {
         fs::remove(at / shard);
         fs::create_directory(at / shard);
       }},
      {"rank-00001.safetensors is not a regular file",
       [](const fs::path& at) {
         fs::remove(at / shard);
         REQUIRE(::mkfifo((at / shard).c_str(), 0600) == 0);
       }},
      {"rank-00001.safetensors has ",
       [](const fs::path& at) { std::ofstream(at / shard, std::ios::app) << "x"; }},
      {"rank-00001.safetensors is damaged in chunk 0",
       [](const fs::path& at) {
         fs::copy_file(at.parent_path() / "step-00000002" / shard, at / shard,
                       fs::copy_options::overwrite_existing);
       }},
      {"has a \"growth_tracker\" of 9223372036854775808, out of range 0 to 2147483646",
       [](const fs::path& at) {
         edit_manifest(at, [](CheckpointManifest& manifest) {
           manifest.about["state"]["growth_tracker"] = std::uint64_t{1} << 63;
         });
       }},
      {"has a \"recipe\" that is not a text: [1]",
       [](const fs::path& at) {
         edit_manifest(at, [](CheckpointManifest& manifest) {
           manifest.about["recipe"] = Json(Json::Items{Json(1)});
         });
       }},
      {"manifest.json cannot be opened",
       [](const fs::path& at) { fs::remove(at / "manifest.json"); }},
      {"'more' does not belong to the checkpoint",
       [](const fs::path& at) { std::ofstream(at / "more") << "x"; }},
      {"step-00000004 cannot be opened: Not a directory",
       [](const fs::path& at) {
         fs::rename(at, at.parent_path() / "real");
         fs::create_directory_symlink("real", at);
       }},
      {"step-00000004 cannot be opened: Not a directory",
       [](const fs::path& at) {
         fs::remove_all(at);
         std::ofstream(at) << "x";
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.says));
    const std::string path = saved.spoilt(row.act);
    for (const auto& [command, words] : saved.readers(path + "/step-00000004"))
      saved.expect_refused(words, row.says, 7);
    CHECK(run_cli("checkpoint inspect " + quoted(path)).exit_code ==
          7);  // after the table of the folder
    const CliResult verified = run_cli("checkpoint verify " + quoted(path));
    CHECK(verified.exit_code == 7);
    CHECK(verified.out.find("damaged  ") != std::string::npos);
    CHECK(verified.out.find(row.says) != std::string::npos);
    CHECK(run_cli(train("--world threads:2 --steps 6 --resume", path)).exit_code == 7);
    fs::remove_all(fs::path(path) / "step-00000002");  // no fallback is left
    CHECK(run_cli(train("--world threads:2 --steps 6 --resume", path)).exit_code == 7);
  }
}

TEST_CASE(
    "bad checkpoints: missing ones, and those of a later version, are not reported as damaged") {
  const Saved saved;
  const std::string missing = saved.file("good/step-00000099");
  for (const auto& [command, words] : saved.readers(missing))
    saved.expect_refused(words, "step-00000099 cannot be opened: No such file", 2);
  saved.expect_refused("checkpoint verify " + quoted(missing), "step-00000099 cannot be opened", 2);
  fs::create_directory(saved.file("empty"));
  for (const auto& [command, words] : saved.readers(saved.file("empty")))
    saved.expect_refused(words, "empty has no checkpoint", 2);
  for (const auto& [command, words] : saved.readers(""))
    saved.expect_refused(words, command == "import" ? "" : "empty name", 2);
  saved.expect_refused("checkpoint verify ''", "checkpoint verify was given an empty name", 2);

  const std::string later = saved.spoilt([](const fs::path& at) {
    CheckpointManifest manifest = parse_manifest(read_file(at / "manifest.json"), "manifest");
    std::string text = manifest_text(manifest);
    const std::size_t begin = text.find("\"manifest\":") + 11;
    std::string body = text.substr(begin, text.rfind("}") - begin);
    body.replace(body.find("\"version\":1"), 11, "\"version\":2");
    std::ofstream(at / "manifest.json", std::ios::binary)
        << "{\"hash\":\"" +
               to_hex(raw_digest(body.data(), static_cast<std::int64_t>(body.size()))) +
               "\",\"manifest\":" + body + text.substr(text.rfind("}"));
  });
  for (const auto& [command, words] : saved.readers(later + "/step-00000004"))
    saved.expect_refused(words, "is of version 2", 3);
  const CliResult verified = run_cli("checkpoint verify " + quoted(later));
  CHECK(verified.exit_code == 3);
  CHECK(verified.out.find("not read ") != std::string::npos);
  CHECK(verified.out.find("damaged") == std::string::npos);
  fs::remove(fs::path(later) / "step-00000002" / shard);
  CHECK(run_cli("checkpoint verify " + quoted(later)).exit_code == 7);
}

TEST_CASE("bad checkpoints: an empty folder name, as from an unset variable, is refused") {
  for (const char* flag : {"checkpoint", "log", "dump"}) {
    const std::string words =
        std::string("train --workload byte_gpt_tiny --dtype bf16 --steps 1 --") + flag + " ''";
    expect_refusal(run_cli(words), std::string("--") + flag + " was given an empty value");
  }
  expect_refusal(run_cli("audit ''"), "the folder's name is empty");
}

TEST_CASE("bad checkpoints: a checkpoint without a description of its training is named") {
  const Saved saved;
  const std::pair<const char*, const char*> rows[] = {
      {"workload", "no_such"},
      {"dtype", "fp8"},
      {"settings", "[a"},
      {"settings", "[optimizer]\nno_such = 1"},
      {"place", "x"},
      {"place", "byte_gpt/adamw/host/stage9/self/bf16/free/bucket:1/omp:1"}};
  for (const auto& row : rows) {  // clang does not let a lambda have structured bindings
    const std::string key = row.first, value = row.second;
    CAPTURE(key);
    CAPTURE(value);
    const std::string path = saved.spoilt([&](const fs::path& at) {
      edit_manifest(at, [&](CheckpointManifest& manifest) { manifest.about[key] = value; });
    });
    saved.expect_refused("checkpoint reshard " + quoted(path) + " -o " + quoted(saved.file("out")),
                         "step-00000004 does not describe its training: ", 7);
  }
}

TEST_CASE("bad checkpoints: texts of a manifest reach the terminal escaped and short") {
  const Saved saved;
  const std::string path = saved.spoilt([](const fs::path& at) {
    edit_manifest(at, [](CheckpointManifest& manifest) {
      manifest.about["place"] = "\x1b[2J" + std::string(100'000, 'x');
    });
  });
  const CliResult result = run_cli("checkpoint inspect " + quoted(path));
  CHECK(result.exit_code == 0);
  CHECK(result.out.find('\x1b') == std::string::npos);
  CHECK(result.out.find("\\x1b[2J") != std::string::npos);
  CHECK(result.out.size() < 20'000);
}

TEST_CASE("bad checkpoints: a state in a file must be finite, or be allowed not to be") {
  const Saved saved;
  std::string bytes = zeroproof::tests::read_file(saved.file("state"));
  bytes.replace(bytes.size() - 4, 4, std::string("\0\0\x80\x7F", 4));  // of the last tensor
  std::ofstream(saved.file("infinite"), std::ios::binary) << bytes;
  const std::string import = "checkpoint import " + quoted(saved.file("infinite")) + " --like " +
                             quoted(saved.file("good")) + " -o " + quoted(saved.file("out"));
  saved.expect_refused(import, " = inf ", 2);
  saved.expect_refused("checkpoint export " + quoted(saved.file("good")) +
                           " --allow-nonfinite -o " + quoted(saved.file("out")),
                       "only import takes them", 2);
  CHECK(run_cli(import + " --allow-nonfinite").exit_code == 0);
}

TEST_CASE("bad checkpoints: a state in a file is imported completely, or not at all") {
  const Saved saved;
  const auto made = [&](const std::string& recipe, const std::string& name, int steps) {
    REQUIRE(run_cli(train("--recipe " + recipe + " --world self --steps " + std::to_string(steps),
                          saved.file(name)))
                .exit_code == 0);
    REQUIRE(run_cli("checkpoint export " + quoted(saved.file(name)) + " -o " +
                    quoted(saved.file(name + ".state")))
                .exit_code == 0);
  };
  made("lion", "lion", 2);
  made("adamw-idle", "idle", 4);
  made("adamw-idle", "earlier", 1);
  const auto import = [&](const std::string& file, const std::string& like) {
    return "checkpoint import " + quoted(saved.file(file)) + " --like " + quoted(saved.file(like)) +
           " -o " + quoted(saved.file("out"));
  };
  saved.expect_refused(import("state", "lion"), "has 'exp_avg_sq.", 2);
  saved.expect_refused(import("lion.state", "good"), "has no tensor 'exp_avg_sq.", 2);
  saved.expect_refused(import("state", "idle"), "has no tensor tensor_steps", 2);
  saved.expect_refused(import("idle.state", "good"),
                       "has tensor_steps, which the training does not keep", 2);
  // Counts of tensors are those of the file: the exported checkpoint, except for its step and run.
  REQUIRE(run_cli(import("idle.state", "earlier")).exit_code == 0);
  const auto counts = [&](const std::string& name, std::int64_t step) {
    const CheckpointReader reader(CheckpointRoot(saved.file(name)), step);
    return reader.manifest().about.at("state").at("tensor_steps").get<std::vector<std::uint64_t>>();
  };
  CHECK(counts("out", 1) == counts("idle", 4));
  CHECK(counts("earlier", 1) != counts("idle", 4));
}
