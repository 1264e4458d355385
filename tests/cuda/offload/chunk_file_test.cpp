// Chunks in a file: a read returns the last data written, or fails.

#include "cuda/offload/chunk_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/cuda/expect_error.hpp"

namespace chunk_file_test {

namespace {

using namespace zeroproof;
using cuda::ChunkFile;
using cuda::ChunkMemory;
using cuda::OffloadedBuffer;
using tests::expect_error;

constexpr std::int64_t count = 100;
const std::vector<OffloadedBuffer> buffers = {{BufferId::master}, {BufferId::exp_avg}};

ChunkFile::Slot slot() { return {ChunkMemory(buffers, count, false)}; }

float* values(const ChunkFile::Slot& slot) { return reinterpret_cast<float*>(slot.memory.data()); }

void fill(const ChunkFile::Slot& slot, float value, std::int64_t elements = count) {
  std::fill_n(values(slot), 2 * elements, value);
}

/// The descriptors of the files, one for each part of a chunk: the deleted files that this process
/// has open.
std::vector<int> files_of_this_process() {
  std::vector<int> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string to = std::filesystem::read_symlink(entry.path(), none).string();
    if (to.find("zeroproof-offload-") == std::string::npos) continue;
    files.push_back(std::stoi(entry.path().filename().string()));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE(
    "chunk file: chunks are read back, the last one shorter, version after version, by any number "
    "of "
    "threads") {
  for (const int threads : {1, 2, 3, 9}) {
    CAPTURE(threads);
    ChunkFile file("", {count, count, 7}, buffers, Exec{threads});
    ChunkFile::Slot at = slot();
    const auto value = [](int version, int chunk, std::int64_t i) {
      return static_cast<float>(10000 * version + 1000 * chunk + i);
    };
    for (int version = 1; version <= 3; ++version) {
      for (int chunk = 0; chunk < 3; ++chunk) {
        version == 1 ? file.take(chunk, at) : file.read(chunk, at);
        for (std::int64_t i = 0; i < (chunk == 2 ? 14 : 2 * count); ++i)
          values(at)[i] = value(version, chunk, i);
        file.write(chunk, at);
      }
      for (int chunk = 2; chunk >= 0; --chunk) {
        at.memory.poison();
        file.read_ahead(chunk);
        file.read(chunk, at);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < (chunk == 2 ? 14 : 2 * count); ++i)
          wrong += values(at)[i] == value(version, chunk, i) ? 0 : 1;
        CHECK(wrong == 0);
      }
    }
    CHECK(at.memory.intact());
  }
}

TEST_CASE("chunk file: codes and scales of blocks are read back, and no part splits a block") {
  const std::vector<OffloadedBuffer> stored = {{BufferId::master},
                                               {BufferId::exp_avg_scale},
                                               {BufferId::exp_avg_sq_scale},
                                               {BufferId::exp_avg_sq, DType::fp16},
                                               {BufferId::exp_avg, DType::e4m3}};
  for (const std::int64_t blocks : {1, 3, 4, 5, 9}) {
    CAPTURE(blocks);
    const std::int64_t longest = blocks * state_block_numel;
    ChunkFile file("", {longest, state_block_numel}, stored, Exec{2});
    // A part of all files is header, 4 + 2 + 1 bytes of an element and 8 of a block.
    const std::int64_t in_part = (blocks + 3) / 4;
    CHECK(file.num_bytes() == 2 * 4 * ((32 + in_part * (128 * 7 + 8) + 63) / 64 * 64));
    ChunkFile::Slot at{ChunkMemory(stored, longest, false)};
    for (const std::int64_t chunk : {0, 1}) {
      const std::int64_t bytes =
          cuda::offloaded_bytes(stored, chunk == 0 ? longest : state_block_numel);
      file.take(chunk, at);
      for (std::int64_t i = 0; i < bytes; ++i)
        at.memory.data()[i] = static_cast<std::byte>((i * 131 + chunk) % 251);
      file.write(chunk, at);
      at.memory.poison();
      file.read(chunk, at);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < bytes; ++i)
        wrong += at.memory.data()[i] == static_cast<std::byte>((i * 131 + chunk) % 251) ? 0 : 1;
      CHECK(wrong == 0);
    }
    CHECK(at.memory.intact());
  }
}

TEST_CASE("chunk file: writing a chunk twice, or from an old slot, is an error") {
  ChunkFile file("", {count, count}, buffers, Exec{2});
  ChunkFile::Slot one = slot(), two = slot();
  file.take(0, one);
  fill(one, 1);
  file.write(0, one);
  expect_error(
      ErrorCode::internal, [&] { file.write(0, one); }, "version 0 of chunk -1");
  file.read(0, one);
  file.read(0, two);
  file.write(0, two);
  expect_error(
      ErrorCode::internal, [&] { file.write(0, one); },
      "version 1 of chunk 0 would overwrite version 2");
  expect_error(
      ErrorCode::internal, [&] { file.write(1, one); }, "would overwrite version 0 of chunk 1");
}

TEST_CASE(
    "chunk file: every changed byte is reported as damage, and so is an older "
    "version") {
  ChunkFile file("", {count, count}, buffers, Exec{2});
  ChunkFile::Slot at = slot();
  for (int chunk = 0; chunk < 2; ++chunk) {
    file.take(chunk, at);
    fill(at, 1.5F);
    file.write(chunk, at);
  }
  const std::vector<int> files = files_of_this_process();
  const auto parts = std::ssize(files);
  REQUIRE(parts > 1);
  const std::int64_t stride = file.num_bytes() / parts / 2;
  std::vector<std::byte> old(stride);
  std::int64_t seen = 0;  // checked bytes: all but those that fill up a line
  for (const int raw : files) {
    REQUIRE(::pread(raw, old.data(), old.size(), 0) == stride);
    for (std::int64_t i = 0; i < stride; ++i) {
      std::byte byte = old[i] ^ std::byte{4};
      REQUIRE(::pwrite(raw, &byte, 1, i) == 1);
      std::string error;
      try {
        file.read(0, at);
      } catch (const Error& damage) {
        CHECK(damage.code() == ErrorCode::damaged);
        error = damage.what();
      }
      CHECK((error.empty() || error.starts_with("chunk 0 of the state offloaded to ")));
      seen += error.empty() ? 0 : 1;
      REQUIRE(::pwrite(raw, &old[i], 1, i) == 1);
    }
    file.read(0, at);
  }
  CHECK(seen == parts * 32 + count * 8);
  for (const int raw : files) {
    REQUIRE(::pread(raw, old.data(), old.size(), 0) == stride);
    file.read(0, at);
    fill(at, 2.5F);
    file.write(0, at);
    REQUIRE(::pwrite(raw, old.data(), old.size(), 0) == stride);
    expect_error(
        ErrorCode::damaged, [&] { file.read(0, at); }, "is not its version ");
    REQUIRE(::pwrite(raw, old.data(), old.size(), stride) == stride);  // the chunk beside it
    expect_error(
        ErrorCode::damaged, [&] { file.read(1, at); }, "chunk 1");
    file.take(0, at);
    fill(at, 1.5F);
    file.write(0, at);
    file.take(1, at);
    fill(at, 1.5F);
    file.write(1, at);
  }
}

TEST_CASE("chunk file: no file is visible in the folder, not even during use") {
  const std::string folder = std::filesystem::temp_directory_path() / "zeroproof-chunk-file-test";
  std::filesystem::create_directory(folder);
  {
    ChunkFile file(folder, {count}, buffers, Exec{});
    CHECK(std::filesystem::is_empty(folder));
  }
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST_CASE("chunk file: a failed write is an error, and the chunk is then damaged") {
  ChunkFile file("", {count, count}, buffers, Exec{2});
  ChunkFile::Slot at = slot();
  file.take(0, at);
  fill(at, 1);
  file.write(0, at);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const auto one = file.num_bytes() / std::ssize(files_of_this_process());
  const rlimit small{static_cast<rlim_t>(one / 2 + 50), before.rlim_max};
  file.take(1, at);
  fill(at, 2);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  expect_error(
      ErrorCode::io, [&] { file.write(1, at); }, "could not be written");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, handler);
  expect_error(
      ErrorCode::damaged, [&] { file.read(1, at); }, "chunk 1");
  file.read(0, at);
  CHECK(values(at)[0] == 1);
}

}  // namespace chunk_file_test
