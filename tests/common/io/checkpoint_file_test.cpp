// A file written by a background thread: bytes and hashes are those of the caller, with and without
// direct writes, and every error is reported.

#include <doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/base/error.hpp"
#include "tests/common/io/faulty_disk.hpp"
#include "tests/common/io/particular_disk.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_file_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr auto block = static_cast<std::size_t>(write_block_bytes);
constexpr std::size_t sizes[] = {0,         1,     4095,      4096,
                                 mib - 1,   mib,   mib + 1,   3 * mib + 8,
                                 block - 4, block, block + 1, 5 * block + mib + 4097};

std::string bytes_of(std::size_t count) {
  static const std::string all = [] {
    std::string bytes(9 * block + 4097, '\0');
    std::uint32_t state = 1;
    for (char& byte : bytes)
      byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    return bytes;
  }();
  return all.substr(0, count);
}

FileRecord write_file(Disk& disk, const TemporaryFolder& folder, const std::string& bytes,
                      std::size_t at_once) {
  const OpenFile opened(disk, disk.open_root(folder.file("").c_str()));
  CheckpointFile file(disk, opened.handle(), "folder", "file");
  for (std::size_t at = 0; at < bytes.size(); at += at_once)
    file.write(
        std::as_bytes(Span<const char>(bytes.data() + at, std::min(at_once, bytes.size() - at))));
  return file.finish();
}

void check_file(Disk& disk, const TemporaryFolder& folder, std::size_t size, std::size_t at_once) {
  CAPTURE(size);
  CAPTURE(at_once);
  const std::string bytes = bytes_of(size);
  const FileRecord record = write_file(disk, folder, bytes, at_once);
  const bool same = folder.read("file") == bytes;  // binary
  CHECK(same);
  CHECK(record.num_bytes == static_cast<std::int64_t>(size));
  REQUIRE(record.chunks.size() == (size + mib - 1) / mib);
  for (std::size_t i = 0; i < record.chunks.size(); ++i) {
    const std::size_t count = std::min(mib, size - i * mib);
    CHECK(record.chunks[i] == raw_digest(bytes.data() + i * mib, static_cast<std::int64_t>(count)));
  }
  std::filesystem::remove(folder.file("file"));
}

}  // namespace

TEST_CASE(
    "checkpoint file: every size, in pieces of any size, through the page cache and past it") {
  const TemporaryFolder on_disk;
  const TemporaryFolder in_memory = TemporaryFolder::in_memory();
  for (const Cache cache : {Cache::as_it_is, Cache::refused, Cache::meant_no}) {
    for (const TemporaryFolder* folder : {&on_disk, &in_memory}) {
      for (const std::size_t size : sizes) {
        for (const std::size_t at_once : {std::size_t{4093}, 3 * block}) {
          ParticularDisk disk(cache);
          check_file(disk, *folder, size, at_once);
          CHECK(disk.crooked == 0);
          if (cache != Cache::as_it_is) CHECK(disk.past == 0);
        }
      }
    }
  }
  ParticularDisk disk(Cache::as_it_is);
  check_file(disk, on_disk, 5 * block + 1, mib);
  std::printf("past the page cache %d writes, through it %d\n", disk.past, disk.through);
  CHECK((disk.past == 5 || disk.past == 0));  // all whole blocks, or the file system cannot
  CHECK(disk.through == 6 - disk.past);
}

TEST_CASE(
    "checkpoint file: numbers over the ends of chunks are those of memory, a NaN the one of R9") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const OpenFile opened(system_disk(), system_disk().open_root(folder.file("").c_str()));
  std::vector<std::uint32_t> bits(700000);  // three chunks
  std::uint32_t state = 1;
  for (std::uint32_t& word : bits) word = state = state * 1664525U + 1013904223U;
  for (std::size_t i = 0; i < bits.size(); i += 1000)
    bits[i] = 0xff800001U + static_cast<std::uint32_t>(i);
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{4093}, bits.size()}) {
    CAPTURE(at_once);
    CheckpointFile file(system_disk(), opened.handle(), "folder", "numbers");
    file.write(std::as_bytes(Span<const char>("header: ", 8)));
    for (std::size_t at = 0; at < bits.size(); at += at_once) {
      std::vector<float> values(std::min(at_once, bits.size() - at));
      std::memcpy(values.data(), bits.data() + at, values.size() * sizeof(float));
      file.write(values);
    }
    CHECK(file.finish().num_bytes == static_cast<std::int64_t>(8 + bits.size() * sizeof(float)));
    const std::string bytes = folder.read("numbers");
    REQUIRE(bytes.size() == 8 + bits.size() * sizeof(float));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + 8 + i * sizeof word, sizeof word);
      const bool nan = (bits[i] & 0x7fffffffU) > 0x7f800000U;
      wrong += word != (nan ? 0x7fffffffU : bits[i]) ? 1U : 0U;
    }
    CHECK(wrong == 0);
    std::filesystem::remove(folder.file("numbers"));
  }
  CheckpointFile file(system_disk(), opened.handle(), "folder", "crooked");
  file.write(std::as_bytes(Span<const char>("odd", 3)));
  const std::vector<float> one = {1.0F};
  CHECK_THROWS_WITH_AS(file.write(one), doctest::Contains("at a byte that is not a multiple of 4"),
                       Error);
}

TEST_CASE("checkpoint file: a disk with short writes") {
  const TemporaryFolder folder;
  for (const Cache cache : {Cache::as_it_is, Cache::refused, Cache::meant_no}) {
    for (const std::size_t most : {std::size_t{100001}, std::size_t{4096 * 100}, mib - 1}) {
      ParticularDisk disk(cache, most);
      check_file(disk, folder, 3 * block + 77, 4093);
      CHECK(disk.crooked == 0);
    }
  }
}

namespace {

std::string problem_of_writing(Disk& disk, const TemporaryFolder& folder, std::size_t at_once) {
  try {
    write_file(disk, folder, bytes_of(9 * block + 5), at_once);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::io);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("checkpoint file: a disk that is full, broken, or writes nothing, at every write") {
  const TemporaryFolder folder;
  for (const auto& [error, said] :
       {std::pair{ENOSPC, "No space left"}, std::pair{EIO, "Input/output error"},
        std::pair{0, "nothing was written"}}) {
    for (std::size_t at = 0; at < 10; ++at) {
      CAPTURE(at);
      FullDisk disk(static_cast<int>(at), error);
      const std::string problem = problem_of_writing(disk, folder, 16 * mib);
      CAPTURE(problem);
      CHECK(problem.find(said) != std::string::npos);
      CHECK(problem.find("folder/file cannot be written at byte " + std::to_string(at * block) +
                         ":") != std::string::npos);
      std::filesystem::remove(folder.file("file"));
    }
  }
}

TEST_CASE("checkpoint file: destroyed before its end, without waiting for the rest") {
  const TemporaryFolder folder;
  for (const std::size_t blocks : {1, 2, 3, 8}) {
    const OpenFile opened(system_disk(), system_disk().open_root(folder.file("").c_str()));
    CheckpointFile file(system_disk(), opened.handle(), "folder", "file-" + std::to_string(blocks));
    const std::string bytes = bytes_of(blocks * block + 17);
    file.write(std::as_bytes(Span<const char>(bytes)));
  }
  CHECK(folder.num_entries() == 4);
}

namespace {

constexpr std::int64_t large_numel =
    9 * (write_block_bytes / 16);  // three blocks, the last of which is partial

float large_value(std::int64_t step, std::int64_t e) {
  return static_cast<float>(e % 65521 + step);
}

void save_large(Disk& disk, const std::string& path, std::int64_t step) {
  CheckpointManifest manifest;
  manifest.contract = "1";
  manifest.run = small_run;
  manifest.step = step;
  manifest.tensors = {{"w", {large_numel}, 0}};
  const CheckpointPiece piece{"master", 0, 0, 0, large_numel, large_numel, large_numel, 0};
  std::vector<float> values;
  for (std::int64_t e = 0; e < large_numel; ++e) values.push_back(large_value(step, e));
  const CheckpointRoot root = CheckpointRoot::lock(path, disk);
  UnfinishedCheckpoint checkpoint = root.begin(step);
  manifest.pieces = {piece};
  manifest.files.push_back(
      write_rank_file(disk, checkpoint, rank_file_name(0), manifest, {piece},
                      [&](const CheckpointPiece&, std::int64_t first, std::int64_t count) {
                        return Span<const float>(values).subspan(first, count);
                      }));
  commit_checkpoint(disk, root, checkpoint, manifest);
}

/// The newest step with correct elements; a problem if there is an incorrect one.
std::int64_t newest_large(const std::string& path, std::string& problem) {
  std::int64_t newest = -1;
  try {
    for (const std::int64_t step : CheckpointRoot(path).steps()) {
      std::vector<float> values(large_numel);
      CheckpointReader(CheckpointRoot(path), step).read("master", 0, 0, values);
      for (std::int64_t e = 0; e < large_numel; ++e) {
        if (values[e] != large_value(step, e)) problem = "another value";
      }
      newest = step;
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  return newest;
}

/// Kills, short writes, a full and a broken disk at every `stride`-th call; returns the number of calls at which it did.
int check_mishaps(const TemporaryFolder& folder, int stride) {
  int points = 0;
  const std::string path = folder.file("run");
  save_large(system_disk(), path, 5);
  FaultyDisk counted;
  save_large(counted, path, 10);
  std::filesystem::remove_all(path + "/" + checkpoint_name(10));
  REQUIRE(counted.num_calls() >= 15);
  int first = 0;
  for (const Mishap mishap :
       {Mishap::killed_before, Mishap::killed_after, Mishap::killed_half_written,
        Mishap::written_short, Mishap::no_space, Mishap::io_error}) {
    for (int at = first++ % stride; at < counted.num_calls(); at += stride) {
      const pid_t child = ::fork();
      if (child == 0) {
        try {
          FaultyDisk disk(mishap, at);
          save_large(disk, path, 10);
        } catch (const Error&) {
          ::_exit(1);
        }
        ::_exit(0);
      }
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      const bool kills = mishap == Mishap::killed_before || mishap == Mishap::killed_after ||
                         mishap == Mishap::killed_half_written;
      CAPTURE(static_cast<int>(mishap));
      CAPTURE(at);
      CHECK(WIFSIGNALED(status) == kills);
      if (mishap == Mishap::written_short) CHECK(WEXITSTATUS(status) == 0);
      std::string problem;
      CHECK(newest_large(path, problem) >= 5);
      CHECK(problem == "");
      std::filesystem::remove_all(path + "/" + checkpoint_name(10));
      ++points;
    }
  }
  return points;
}

}  // namespace

TEST_CASE("checkpoint file: complete after mishaps at some calls of several blocks") {
  CHECK(check_mishaps(TemporaryFolder::in_memory(), 5) >= 20);
}

TEST_CASE("nightly: checkpoint file: complete after every mishap at every call") {
  CHECK(check_mishaps(TemporaryFolder::in_memory(), 1) + check_mishaps(TemporaryFolder(), 1) >=
        200);
}

}  // namespace checkpoint_file_test
