// Damage: every bit, every length, and files of other checkpoints.

#include <doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>

#include "common/base/error.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_damage_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

/// One rank's checkpoint of step 10, of one tensor.
void save_one_tensor(const std::string& path, std::int64_t count) {
  CheckpointManifest manifest;
  manifest.contract = "1";
  manifest.run = small_run;
  manifest.step = 10;
  manifest.tensors = {{"w", {count}, 0}};
  const CheckpointPiece piece{"master", 0, 0, 0, count, count, count, 0};
  const std::vector<float> values(count, 1.5F);
  const CheckpointRoot root = CheckpointRoot::lock(path);
  UnfinishedCheckpoint checkpoint = root.begin(manifest.step);
  manifest.pieces = {piece};
  manifest.files.push_back(
      write_rank_file(system_disk(), checkpoint, rank_file_name(0), manifest, {piece},
                      [&](const CheckpointPiece&, std::int64_t first, std::int64_t length) {
                        return Span<const float>(values).subspan(first, length);
                      }));
  commit_checkpoint(system_disk(), root, checkpoint, manifest);
}

/// A checkpoint in memory, and its files one after the other.
struct Saved {
  using Save = std::function<void(const std::string& path)>;

  explicit Saved(const Save& save)
      : folder(TemporaryFolder::in_memory()), path(folder.file("run")) {
    save(path);
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock")
        files.push_back(entry.path().string());
    }
  }
  Saved(std::int64_t step, int ranks)
      : Saved([&](const std::string& path) { save_small(system_disk(), path, step, ranks); }) {}
  std::string file(const std::string& name, std::int64_t step) const {
    return path + "/" + checkpoint_name(step) + "/" + name;
  }

  TemporaryFolder folder;
  std::string path;
  std::vector<std::string> files;
};

std::string content(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void replace(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Error of reading all of it, with LATEST.
std::string problem_of(const std::string& path, std::int64_t step) {
  try {
    const CheckpointRoot root(path);
    if (root.latest() != step) return "LATEST";
    CheckpointReader(root, step).verify();
  } catch (const Error& error) {
    const bool of_a_file = error.code() == ErrorCode::damaged || error.code() == ErrorCode::io;
    return of_a_file ? error.what() : std::string("another error: ") + error.what();
  }
  return "";
}

bool names(const std::string& problem, const std::string& file) {
  return problem.find(fs::path(file).filename().string()) != std::string::npos;
}

}  // namespace

TEST_CASE("checkpoint: every length, and bytes behind the end") {
  const Saved saved(10, 2);
  for (const std::string& file : saved.files) {
    const std::string whole = content(file);
    for (std::size_t length = 0; length <= whole.size() + 3; ++length) {
      if (length == whole.size()) continue;
      std::string bytes = whole;
      bytes.resize(length, ' ');
      replace(file, bytes);
      CAPTURE(length);
      CHECK(names(problem_of(saved.path, 10), file));
    }
    replace(file, whole);
  }
}

TEST_CASE("checkpoint: bursts are located in their chunk") {
  const Saved saved(
      [](const std::string& path) { save_one_tensor(path, 3 << 18); });  // 3 MiB: there are chunks
  const std::string& path = saved.path;
  REQUIRE(problem_of(path, 10) == "");
  const std::string file = saved.file(rank_file_name(0), 10);
  const std::string whole = content(file);
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = whole;
    const std::size_t at = random() % whole.size(), length = 1 + random() % 600;
    for (std::size_t j = at; j < std::min(whole.size(), at + length); ++j)
      bytes[j] = static_cast<char>(bytes[j] ^ static_cast<char>(1 + random() % 255));
    replace(file, bytes);
    const std::string problem = problem_of(path, 10);
    CAPTURE(problem);
    CHECK(problem.find("damaged in chunk " + std::to_string(at >> 20) + " ") != std::string::npos);
  }
  // Chunks found damaged once are not cached as valid.
  replace(file, whole);
  const CheckpointReader reader(CheckpointRoot(path), 10);
  std::string bytes = whole;
  bytes[(std::size_t{2} << 20) + 5] ^= 1;
  replace(file, bytes);
  for (int time = 0; time < 3; ++time) CHECK_THROWS_AS(reader.verify(), Error);
}

namespace {

/// A file whose bytes are changed in place, and restored.
class ChangedFile {
 public:
  explicit ChangedFile(const std::string& file)
      : whole(content(file)), handle_(::open(file.c_str(), O_WRONLY)) {}
  ~ChangedFile() { ::close(handle_); }
  ChangedFile(const ChangedFile&) = delete;
  ChangedFile& operator=(const ChangedFile&) = delete;
  void put(std::size_t at, const std::string& bytes) const {
    REQUIRE(::pwrite(handle_, bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
            static_cast<ssize_t>(bytes.size()));
  }
  const std::string whole;

 private:
  int handle_;
};

/// Flips every single bit of all files, and counts the detected ones.
void check_every_bit(const Saved& saved, std::int64_t at_least) {
  REQUIRE(problem_of(saved.path, 10) == "");
  std::int64_t flips = 0, found = 0, named = 0;
  for (const std::string& name : saved.files) {
    const ChangedFile file(name);
    for (std::size_t bit = 0; bit < file.whole.size() * 8; ++bit) {
      const char right = file.whole[bit / 8];
      file.put(bit / 8, {static_cast<char>(right ^ (1 << (bit % 8)))});
      const std::string problem = problem_of(saved.path, 10);
      file.put(bit / 8, {right});
      ++flips;
      found += problem.empty() ? 0 : 1;
      named += names(problem, name) ? 1 : 0;
    }
  }
  std::printf("bits %lld, found %lld, file named %lld\n", static_cast<long long>(flips),
              static_cast<long long>(found), static_cast<long long>(named));
  CHECK(flips >= at_least);
  CHECK(found == flips);
  CHECK(named == flips);
  CHECK(problem_of(saved.path, 10) == "");
}

/// Counts detected bursts of 1 to 600 bytes in any of the files: every byte changed, or the first
/// bits of two bytes far apart.
void check_bursts(int count) {
  const Saved saved(10, 2);
  std::vector<std::unique_ptr<ChangedFile>> files;
  for (const std::string& file : saved.files) files.push_back(std::make_unique<ChangedFile>(file));
  std::mt19937 random(11);
  int found = 0, named = 0;
  for (int i = 0; i < count; ++i) {
    const std::size_t which = random() % files.size();
    const std::string& whole = files[which]->whole;
    const std::size_t at = random() % whole.size();
    std::string bytes = whole.substr(at, 1 + random() % 600);
    const bool burst = random() % 2 == 0;
    for (std::size_t j = 0; j < bytes.size(); ++j) {
      if (burst || j == 0 || j + 1 == bytes.size())
        bytes[j] = static_cast<char>(bytes[j] ^ static_cast<char>(1 + random() % 255));
    }
    files[which]->put(at, bytes);
    const std::string problem = problem_of(saved.path, 10);
    found += problem.empty() ? 0 : 1;
    named += names(problem, saved.files[which]) ? 1 : 0;
    files[which]->put(at, whole.substr(at, bytes.size()));
  }
  std::printf("bursts %d, found %d, file named %d\n", count, found, named);
  CHECK(found == count);
  CHECK(named == count);
  CHECK(problem_of(saved.path, 10) == "");
}

}  // namespace

TEST_CASE("checkpoint: every bit of every file") { check_every_bit(Saved(10, 2), 60'000); }
TEST_CASE("nightly: checkpoint: every bit of 64 KiB") {
  check_every_bit(Saved([](const std::string& path) { save_one_tensor(path, 1 << 14); }), 8 << 16);
}

TEST_CASE("checkpoint: 2,000 bursts") { check_bursts(2'000); }
TEST_CASE("nightly: checkpoint: a million bursts") { check_bursts(1'000'000); }

TEST_CASE("checkpoint: files of other checkpoints, steps and runs") {
  const Saved saved(10, 2), older(5, 2), other(10, 1);
  const std::string first = saved.file(rank_file_name(0), 10),
                    second = saved.file(rank_file_name(1), 10);
  const std::string manifest = saved.file("manifest.json", 10);
  const std::string first_bytes = content(first), second_bytes = content(second),
                    manifest_bytes = content(manifest);

  SUBCASE("swapped") {
    replace(first, second_bytes);
    replace(second, first_bytes);
  }
  SUBCASE("stale") { replace(first, content(older.file(rank_file_name(0), 5))); }
  SUBCASE("another run's") { replace(first, content(other.file(rank_file_name(0), 10))); }
  SUBCASE("another step's manifest") { replace(manifest, content(older.file("manifest.json", 5))); }
  SUBCASE("missing") { fs::remove(second); }
  SUBCASE("no manifest") { fs::remove(manifest); }
  SUBCASE("one more") { replace(saved.file("rank-00002.safetensors", 10), first_bytes); }
  SUBCASE("a link") {
    fs::rename(first, saved.folder.file("elsewhere"));
    fs::create_symlink(saved.folder.file("elsewhere"), first);
  }
  SUBCASE("a folder") {
    fs::remove(first);
    fs::create_directory(first);
  }
  SUBCASE("a pipe") {
    fs::remove(first);
    REQUIRE(::mkfifo(first.c_str(), 0600) == 0);
  }
  SUBCASE("a manifest that is a pipe") {
    fs::remove(manifest);
    REQUIRE(::mkfifo(manifest.c_str(), 0600) == 0);
  }
  SUBCASE("the folder of another step") {
    fs::rename(saved.path + "/" + checkpoint_name(10), saved.path + "/" + checkpoint_name(11));
    CHECK(problem_of(saved.path, 11) != "");
  }
  SUBCASE("the folder is a link") {
    fs::rename(saved.path + "/" + checkpoint_name(10), saved.folder.file("real"));
    fs::create_directory_symlink(saved.folder.file("real"), saved.path + "/" + checkpoint_name(10));
  }
  CHECK(problem_of(saved.path, 10) != "");
  CHECK(small_problem(saved.path, 10) != "");
}

TEST_CASE("a checkpoint that a run removes while it is read is not damaged") {
  /// Removes the checkpoint of step 10 before it opens a file for the n-th time.
  class PruningDisk final : public Disk {
   public:
    PruningDisk(const CheckpointRoot& root, int at) : root_(root), at_(at) {}
    int open(int folder, const char* name) override {
      if (opened_++ == at_) root_.remove(10);
      return Disk::open(folder, name);
    }

   private:
    const CheckpointRoot& root_;
    int at_, opened_ = 0;
  };

  const auto code_of = [](int at, bool replaced) {
    const Saved saved(10, 2);
    const CheckpointRoot root(saved.path);
    PruningDisk disk(root, at);
    try {
      const CheckpointReader reader(root, 10, disk);
      if (at == 99) root.remove(10);
      if (replaced) save_small(system_disk(), saved.path, 10, 1);
      reader.verify();
      CHECK_FALSE(reader.is_there());
    } catch (const Error& error) {
      CAPTURE(std::string(error.what()));
      CHECK(std::string(error.what()).find("was removed while it was read") != std::string::npos);
      return error.code();
    }
    return ErrorCode::internal;
  };
  for (const int at : {0, 1, 2}) {
    CAPTURE(at);
    CHECK(code_of(at, false) == ErrorCode::io);
  }
  // Its open files can still be read to their ends.
  CHECK(code_of(99, false) == ErrorCode::internal);
  CHECK(code_of(99, true) == ErrorCode::internal);
}

}  // namespace checkpoint_damage_test
