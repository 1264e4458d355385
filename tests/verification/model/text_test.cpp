#include "verification/model/text.hpp"

#include <doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"

namespace text_test {

using namespace zeroproof;
using namespace zeroproof::workload;
namespace fs = std::filesystem;

namespace {

// A temporary directory for one test, removed afterwards.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "zeroproof_text_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  fs::path path_;
};

std::string as_string(Span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("read_text_file: returns the bytes unchanged") {
  const Folder folder;
  const std::string bytes("line one\r\n\0\xFF last", 16);
  folder.write("text", bytes);
  const Text text = read_text_file(folder / "text", 16);
  CHECK(text.kind == "file");
  CHECK(text.path == folder / "text");
  CHECK(as_string(text.bytes) == bytes);
  folder.write("long", std::string(200000, 'x'));
  CHECK(read_text_file(folder / "long", 200000).bytes.size() == 200000);
}

TEST_CASE("read_text_file: errors name the file and the reason") {
  const Folder folder;
  folder.write("empty", "");
  folder.write("short", "12345");
  CHECK(error_of([&] { read_text_file(folder / "none", 1); }) ==
        "text file " + (folder / "none") + " was not found (training reads it); check the path");
  CHECK(error_of([&] { read_text_file(folder.path(), 1); }) ==
        "text file " + folder.path() +
            " is a directory (it must be readable more than once); use a "
            "plain file");
  CHECK(error_of([&] { read_text_file("/dev/null", 1); }).find("is not a regular file") !=
        std::string::npos);
  CHECK(error_of([&] { read_text_file(folder / "empty", 0); }) ==
        "the text of " + (folder / "empty") +
            " has 0 bytes, 1 are needed (micro-batches are windows of it); use a "
            "longer text");
  CHECK(error_of([&] { read_text_file(folder / "short", 6); }).find("has 5 bytes, 6 are needed") !=
        std::string::npos);
  CHECK(error_of([&] { read_text_file(folder / "short", 5); }) == "no error");
#if defined(__linux__)
  // A regular file that opens but whose first page cannot be read, not even by the superuser.
  CHECK(error_of([&] { read_text_file("/proc/self/mem", 1); }) ==
        "text file /proc/self/mem cannot be read (training reads it); check that it is a "
        "plain file "
        "on a "
        "working disk");
#endif
}

TEST_CASE(
    "micro_batch_tokens: depends on the seed and on the number of the micro-batch in the run") {
  Text text{"file", "made up", {}};
  for (int i = 0; i < 250; ++i) text.bytes.push_back(static_cast<std::uint8_t>(i));
  constexpr std::int64_t context = 9;
  std::set<int> offsets;
  for (std::int64_t step = 0; step < 100; ++step) {
    for (std::int64_t j = 0; j < 6; ++j) {
      const auto window = micro_batch_tokens(text, 5, step, j, 6, context);
      REQUIRE(window.size() == 10);
      CHECK(window.data() >= text.bytes.data());
      CHECK(window.data() + window.size() <= text.bytes.data() + text.bytes.size());
      CHECK(window[0] == Philox(5, 1).below(static_cast<std::uint64_t>(step * 6 + j), 241));
      offsets.insert(window[0]);
    }
  }
  CHECK(offsets.size() > 200);  // of 241; the expected number is 241 * (1 - exp(-600 / 241)) = 221
  CHECK(micro_batch_tokens(text, 5, 1, 2, 6, context).data() ==
        micro_batch_tokens(text, 5, 2, 0, 4, context).data());
  CHECK(micro_batch_tokens(text, 5, 0, 0, 6, context).data() !=
        micro_batch_tokens(text, 6, 0, 0, 6, context).data());
}

TEST_CASE("micro_batch_tokens: a text of one window is used, a shorter one is rejected") {
  Text text{"file", "made up", {1, 2, 3}};
  CHECK(micro_batch_tokens(text, 5, 7, 0, 1, 2).data() == text.bytes.data());
  CHECK(error_of([&] { micro_batch_tokens(text, 5, 7, 0, 1, 3); }) ==
        "the text of made up has 3 bytes, 3 + 1 are needed (a micro-batch is a window of "
        "context + 1 "
        "bytes); use a "
        "longer text or a shorter context");
  CHECK_THROWS_AS(micro_batch_tokens(text, 5, -1, 0, 1, 2), Error);
  CHECK_THROWS_AS(micro_batch_tokens(text, 5, 0, 1, 1, 2), Error);
  CHECK_THROWS_AS(micro_batch_tokens(text, 5, 0, -1, 1, 2), Error);
  CHECK_THROWS_AS(micro_batch_tokens(text, 5, 0, 0, 1, 0), Error);
}

}  // namespace text_test
