// Invalid checkpoints: every one is rejected with an error sentence, in a process limited to 512
// MB.

#include <doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/fuzz/checkpoint_check.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_hostile_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool limits_memory = false;  // it needs terabytes of addresses
#else
constexpr bool limits_memory = true;
#endif
constexpr rlim_t most_addresses = 512'000'000;

struct HostileManifest {
  std::string name;
  std::string body;  ///< gets its correct hash
  std::string phrase;
};

std::string repeated(std::size_t times, const std::string& text) {
  std::string all;
  all.reserve(times * text.size());
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// A manifest with one list of three given, the others empty.
std::string body_with(const std::string& tensors, const std::string& files,
                      const std::string& pieces, const std::string& about = "{}") {
  return R"({"format":"zeroproof-checkpoint","version":1,"contract":"1","run":")" +
         std::string(small_run) + R"(","step":10,"about":)" + about + R"(,"tensors":[)" + tensors +
         R"(],"files":[)" + files + R"(],"pieces":[)" + pieces + "]}";
}

std::string tensor_text(const std::string& name, const std::string& shape) {
  return R"({"name":")" + name + R"(","shape":[)" + shape + R"(],"begin":0})";
}
std::string file_text(const std::string& name, const std::string& bytes,
                      const std::string& chunks) {
  return R"({"name":")" + name + R"(","bytes":)" + bytes + R"(,"chunks":[)" + chunks + "]}";
}
std::string piece_text(const std::string& fields) {
  return R"({"state":"master","tensor":0,"file":0,)" + fields + "}";
}
const std::string hash_text = '"' + std::string(32, 'a') + '"';

/// Valid in form, designed to cost memory or time.
std::vector<HostileManifest> large_manifests() {
  const std::string one = tensor_text("a", "4") + ',' + tensor_text("b", "4");
  std::string states, empties = one, chunks = hash_text, keys = "\"k\":0", dimensions = "1";
  for (int i = 0; i < 100'000; ++i)
    states +=
        (i == 0 ? "" : ",") + (R"({"state":"s)" + std::to_string(i)) +
        R"(","tensor":0,"file":0,"first":0,"numel":4,"row_numel":4,"row_stride":4,"offset":0})";
  for (int i = 0; i < 100'000; ++i) empties += ',' + tensor_text("e" + std::to_string(i), "0");
  for (int i = 0; i < 400'000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  for (int i = 0; i < 100'000; ++i) dimensions += ",9";
  const std::string file = file_text("f", "16", hash_text);
  return {
      {"100,000 states and as many empty tensors", body_with(empties, file, states), "not whole"},
      {"100,000 dimensions", body_with(tensor_text("a", dimensions), "", ""), "too large"},
      {"100,000 dimensions of 1 and 0",
       body_with(tensor_text("a", repeated(50'000, "1,0,") + "9") + ",1", "", ""),
       "without \"name\""},
      {"400,000 keys and one more", body_with("", "", "", "{" + keys + ",\"k\":0}"),
       "appears twice"},
      {"a million of lists", body_with("", "", "", "[" + repeated(1'000'000, "[],") + "0"),
       "not readable"},
      {"a million levels", body_with("", "", "", repeated(1'000'000, "[")), "nested"},
      {"a million levels of objects", body_with("", "", "", repeated(1'000'000, "{\"a\":")),
       "nested"},
      {"a name of 8 MiB", body_with(tensor_text(std::string(8 << 20, 'n'), "1"), "", ""), "name"},
      {"a file name of 8 MiB", body_with("", file_text(std::string(8 << 20, 'n'), "0", ""), ""),
       "name"},
      {"60 MiB of lists", body_with("", "", "", "[" + repeated(20 << 20, "[],") + "0"), ""},
      {"60 MiB of texts", body_with("", "", "", "[" + repeated(20 << 20, "\"\",") + "0"), ""},
      {"chunks of an exabyte", body_with("", file_text("f", "1152921504606846976", hash_text), ""),
       "chunks"},
      {"200,000 files that are not there",
       [] {
         std::string files;
         for (int i = 0; i < 200'000; ++i)
           files += (i == 0 ? "" : ",") + file_text("f" + std::to_string(i), "0", "");
         return body_with("", files, "");
       }(),
       "does not belong"},
  };
}

std::vector<HostileManifest> small_manifests() {
  const std::string tensor = tensor_text("a", "4"), file = file_text("f", "16", hash_text);
  const auto piece = [&](const std::string& fields) {
    return body_with(tensor, file, piece_text(fields));
  };
  const std::string whole = R"("first":0,"numel":4,"row_numel":4,"row_stride":4,"offset":0)";
  return {
      {"bytes 2^63", body_with("", file_text("f", "9223372036854775808", hash_text), ""),
       "\"bytes\""},
      {"bytes 2^63 - 1", body_with("", file_text("f", "9223372036854775807", hash_text), ""),
       "\"bytes\""},
      {"bytes negative", body_with("", file_text("f", "-1", hash_text), ""), "\"bytes\""},
      {"bytes with a fraction", body_with("", file_text("f", "1.5", hash_text), ""),
       "not an integer"},
      {"bytes with an exponent", body_with("", file_text("f", "1e3", hash_text), ""),
       "not an integer"},
      {"bytes as a text", body_with("", file_text("f", "\"16\"", hash_text), ""), "not an integer"},
      {"bytes above 2^64", body_with("", file_text("f", "99999999999999999999", hash_text), ""),
       "not an integer"},
      {"a chunk more", body_with("", file_text("f", "16", hash_text + "," + hash_text), ""),
       "chunks"},
      {"a chunk less", body_with("", file_text("f", "1048577", hash_text), ""), "chunks"},
      {"a hash in capitals",
       body_with("", file_text("f", "16", '"' + std::string(32, 'A') + '"'), ""), "hash"},
      {"a hash of 31 digits",
       body_with("", file_text("f", "16", '"' + std::string(31, 'a') + '"'), ""), "hash"},
      {"shape overflows", body_with(tensor_text("a", "4294967296,4294967296"), "", ""),
       "too large"},
      {"shape 2^53 + 1", body_with(tensor_text("a", "9007199254740993"), "", ""), "out of range"},
      {"shape negative", body_with(tensor_text("a", "-4,-1"), "", ""), "out of range"},
      {"a name with a NUL", body_with(tensor_text("a\\u0000b", "4"), "", ""), "name"},
      {"a name with an escape sequence", body_with(tensor_text("\\u001b[2Ja", "4"), "", ""),
       "name"},
      {"a name that is no UTF-8", body_with(tensor_text("a\xFF", "4"), "", ""), "not readable"},
      {"no name", body_with(tensor_text("", "4"), "", ""), "name"},
      {"tensors of one name", body_with(tensor + ',' + tensor, "", ""), "twice"},
      {"files of one name", body_with("", file + ',' + file, ""), "twice"},
      {"a state that is a path",
       body_with(tensor, file, R"({"state":"../a","tensor":0,"file":0,)" + whole + "}"),
       "state buffer with an invalid name"},
      {"a piece overlaps",
       body_with(tensor, file,
                 piece_text(whole) + ',' +
                     piece_text(R"("first":1,"numel":3,"row_numel":4,"row_stride":4,"offset":0)")),
       "twice"},
      {"a gap", piece(R"("first":1,"numel":3,"row_numel":4,"row_stride":4,"offset":0)"),
       "not whole"},
      {"a short piece", piece(R"("first":0,"numel":3,"row_numel":4,"row_stride":4,"offset":0)"),
       "not whole"},
      {"a piece exceeds its tensor",
       piece(R"("first":2,"numel":3,"row_numel":4,"row_stride":4,"offset":0)"), "exceeds"},
      {"first 2^53",
       piece(R"("first":9007199254740992,"numel":4,"row_numel":4,"row_stride":4,"offset":0)"),
       "exceeds"},
      {"numel 0", piece(R"("first":0,"numel":0,"row_numel":4,"row_stride":4,"offset":0)"),
       "\"numel\""},
      {"rows of 0", piece(R"("first":0,"numel":4,"row_numel":0,"row_stride":4,"offset":0)"),
       "\"row_numel\""},
      {"rows that overlap", piece(R"("first":0,"numel":4,"row_numel":4,"row_stride":2,"offset":0)"),
       "\"row_stride\""},
      {"rows longer than the tensor",
       piece(R"("first":0,"numel":4,"row_numel":8,"row_stride":8,"offset":0)"), "exceeds"},
      {"rows that do not divide it",
       piece(R"("first":0,"numel":4,"row_numel":3,"row_stride":3,"offset":0)"), "cross"},
      {"offset behind the row",
       piece(R"("first":0,"numel":4,"row_numel":4,"row_stride":4,"offset":1)"), "\"offset\""},
      {"a piece of no tensor", body_with("", file, piece_text(whole)), "not listed"},
      {"a piece of no file", body_with(tensor, "", piece_text(whole)), "not listed"},
      {"another format", R"({"format":"safetensors"})", "another format"},
      {"a later version", R"({"format":"zeroproof-checkpoint","version":2})", "version 2"},
      {"version 0", R"({"format":"zeroproof-checkpoint","version":0})", "\"version\""},
      {"nothing", "", "not a checkpoint manifest"},
      {"a list", "[]", "not a checkpoint manifest"},
      {"a byte order mark", "\xEF\xBB\xBF" + body_with("", "", ""), "not a checkpoint manifest"},
      {"a comment", "/* */" + body_with("", "", ""), "not a checkpoint manifest"},
      {"something behind", body_with("", "", "") + " {}", "not readable"},
      {"a key twice", R"({"format":"zeroproof-checkpoint","format":"zeroproof-checkpoint"})",
       "appears twice"},
      {"no lists",
       R"({"format":"zeroproof-checkpoint","version":1,"contract":"1","run":")" +
           std::string(small_run) + R"(","step":1,"about":{}})",
       "without \"tensors\""},
      {"a run that is none",
       R"({"format":"zeroproof-checkpoint","version":1,"contract":"1","run":"x"})",
       "has no valid run"},
      {"step 2^63",
       R"({"format":"zeroproof-checkpoint","version":1,"contract":"1","run":")" +
           std::string(small_run) + R"(","step":9223372036854775808})",
       "\"step\""},
  };
}

/// Descriptions of a training with one wrong value each.
std::vector<HostileManifest> wrong_descriptions() {
  std::vector<HostileManifest> all;
  const auto add = [&](const std::string& about, const std::string& phrase) {
    all.push_back({about, body_with("", "", "", about), phrase});
  };
  for (const char* about : {"[]", "1", "null", "\"adamw\""})
    add(about, "has a \"about\" that is not an object");
  for (const std::string key : {"workload", "recipe", "dtype", "settings", "text", "text_file",
                                "gradients", "place", "log"}) {
    for (const char* value : {"1", "null", "[]", "{}", "true"})
      add("{\"" + key + "\":" + value + "}", "has a \"" + key + "\" that is not a text");
  }
  const std::vector<std::pair<std::string, std::string>> counters = {
      {"applied_steps", "9"},   {"log2_scale", "-12"},   {"growth_tracker", "3"},
      {"hysteresis_left", "0"}, {"tensor_steps", "[2]"}, {"param_scale", "\"3f800000\""},
      {"amax_history", "\"\""}};
  const auto state_with = [&](const std::string& changed, const std::string& value) {
    std::string text;
    for (const auto& [key, good] : counters) {
      const std::string& mine = key == changed ? value : good;
      if (!mine.empty()) text += (text.empty() ? "\"" : ",\"") + key + "\":" + mine;
    }
    return "{\"state\":{" + text + "}}";
  };
  add("{\"state\":[]}", "has a \"state\" that is not an object");
  for (const char* value : {"9223372036854775808", "9007199254740993", "-1"})
    add(state_with("applied_steps", value),
        std::string("of ") + value + ", out of range 0 to 9007");
  for (const char* value : {"9223372036854775808", "2147483647", "-1"})
    add(state_with("growth_tracker", value), std::string("of ") + value + ", out of range 0 to 21");
  for (const char* value : {"2147483648", "-1"})
    add(state_with("hysteresis_left", value),
        std::string("of ") + value + ", out of range 0 to 21");
  for (const char* value : {"-1075", "1075", "18446744073709551615"})
    add(state_with("log2_scale", value),
        std::string("of ") + value + ", out of range -1074 to 1074");
  for (const auto& [key, good] : counters) {
    const bool is_text = good[0] == '"', is_list = good[0] == '[';
    for (const char* value : {"1.5", "null", "true", "{}"})
      add(state_with(key, value), "has a \"" + key + "\" that is not a" +
                                      (is_text   ? " text"
                                       : is_list ? " list"
                                                 : "n integer"));
    if (!is_text) add(state_with(key, ""), "without \"" + key + "\"");
  }
  for (const char* value : {"[-1]", "[9007199254740993]"})
    add(state_with("tensor_steps", value), "has a \"tensor_steps\" of ");
  for (const char* value : {"[\"2\"]", "[[]]", "[1.0]"})
    add(state_with("tensor_steps", value), "has a \"tensor_steps\" that is not an integer");
  for (const char* value : {"\"3f8\"", "\"3F800000\"", "\"3f80000 \""}) {
    add(state_with("param_scale", value), "\"param_scale\" that is not a list of words");
    add(state_with("amax_history", value), "\"amax_history\" that is not a list of words");
  }
  return all;
}

/// "" if it was rejected as expected.
std::string complaint(const std::string& folder, const std::string& phrase) {
  try {
    const CheckpointReader reader(CheckpointRoot(folder), 10);
    return "accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool code = error.code() == ErrorCode::damaged || error.code() == ErrorCode::io ||
                      error.code() == ErrorCode::unavailable;
    if (!code) return "another code: " + text;
    if (text.size() >= 1000 || text.find(" (") == std::string::npos ||
        text.find("); ") == std::string::npos)
      return "no sentence: " + text;
    if (text.find(phrase) == std::string::npos) return "has another text: " + text;
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "";
}

/// In a separate process with limited memory.
std::string complaint_in_child(const std::string& folder, const std::string& phrase) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const rlimit limit{most_addresses, most_addresses};
    if (limits_memory && ::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(9);
    const std::string text = complaint(folder, phrase);
    ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0
                                                                                            : 8);
  }
  ::close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t count; (count = ::read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return "ended with status " + std::to_string(status);
  return text;
}

}  // namespace

TEST_CASE("checkpoint: hostile manifests are rejected, in 512 MB") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string path = folder.file("run");
  save_small(system_disk(), path, 10, 2);
  const std::string manifest = path + "/" + checkpoint_name(10) + "/" + manifest_name;
  int cases = 0, refused = 0;
  const auto check = [&](const std::string& name, const std::string& text,
                         const std::string& phrase) {
    std::ofstream(manifest, std::ios::binary | std::ios::trunc) << text;
    CAPTURE(name);
    const std::string problem = complaint_in_child(path, phrase);
    CHECK(problem == "");
    ++cases;
    refused += problem.empty() ? 1 : 0;
  };
  for (const HostileManifest& one : small_manifests())
    check(one.name, with_hash(one.body), one.phrase);
  for (const HostileManifest& one : wrong_descriptions())
    check(one.name, with_hash(one.body), one.phrase);
  if (limits_memory) {
    for (const HostileManifest& one : large_manifests())
      check(one.name, with_hash(one.body), one.phrase);
  }
  check("a pickle", "\x80\x04\x95", "not a checkpoint manifest");
  check("without its end", with_hash(body_with("", "", "")).substr(0, 100),
        "not a checkpoint manifest");
  check("a hash that is another's",
        with_hash("{\"a\":1}").substr(0, 54) + with_hash("{\"a\":2}").substr(54), "hash");
  fs::resize_file(manifest, std::uintmax_t{1} << 30);
  if (limits_memory) CHECK(complaint_in_child(path, "memory") == "");
  fs::resize_file(manifest, (std::uintmax_t{1} << 30) + 1);
  CHECK(complaint_in_child(path, "larger than") == "");
  std::printf("hostile manifests %d, rejected %d\n", cases + 2, refused + 2);
  CHECK(cases >= 40);
}

TEST_CASE("checkpoint: the seeds of the fuzzers are as named") {
  for (const char* corpus : {"manifest", "checkpoint"}) {
    int good = 0;
    for (const auto& entry :
         fs::directory_iterator(source_folder() + "/tests/fuzz/corpus/" + corpus)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(stream)),
                              std::istreambuf_iterator<char>());
      const std::string name = entry.path().filename().string();
      const bool accepted = corpus == std::string("manifest")
                                ? manifest_accepts(with_hash(bytes))
                                : checkpoint_accepts(std::as_bytes(Span<const char>(bytes)));
      CAPTURE(name);
      CHECK(accepted == (name.compare(0, 5, "good_") == 0));
      good += accepted ? 1 : 0;
    }
    CHECK(good >= 3);
  }
}

}  // namespace checkpoint_hostile_test
