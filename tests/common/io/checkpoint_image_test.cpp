// A file made in memory by several threads equals the one written piece by piece, for all
// boundaries of chunks and pieces, and is written completely.

#include "common/io/checkpoint/checkpoint_image.hpp"

#include <doctest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_root.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"
#include "tests/common/io/particular_disk.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_image_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr std::int64_t chunk_numel = chunk_bytes / 4;

/// Pieces of one rank, of tensors of these sizes in two states each; every thousandth element is a
/// non-canonical NaN.
struct Rank {
  explicit Rank(const std::vector<std::int64_t>& numels, std::int64_t step = 7) {
    manifest.contract = "1";
    manifest.run = small_run;
    manifest.step = step;
    std::uint32_t word = static_cast<std::uint32_t>(step);
    for (const std::int64_t count : numels)
      manifest.tensors.push_back({"t" + std::to_string(manifest.tensors.size()), {count}, 0});
    for (const std::string state : {"master", "exp_avg"}) {
      for (std::size_t t = 0; t < numels.size(); ++t) {
        if (numels[t] == 0) continue;
        pieces.push_back(
            {state, static_cast<std::int64_t>(t), 0, 0, numels[t], numels[t], numels[t], 0});
        std::vector<float>& held = memory.emplace_back(static_cast<std::size_t>(numels[t]));
        for (std::size_t i = 0; i < held.size(); ++i) {
          word = word * 1664525U + 1013904223U;
          const std::uint32_t bits =
              i % 1000 == 500 ? 0xff800001U + static_cast<std::uint32_t>(i) : word;
          std::memcpy(&held[i], &bits, sizeof bits);
        }
      }
    }
    for (const std::vector<float>& held : memory) values.emplace_back(held);
  }

  CheckpointManifest manifest;
  std::vector<CheckpointPiece> pieces;
  std::vector<std::vector<float>> memory;
  std::vector<Span<const float>> values;
};

/// Chunks and pieces end in every order: many pieces in a chunk, many chunks of a piece, both at once, and neither.
const std::vector<std::vector<std::int64_t>> cuts = {
    {1},
    {5, 0, 3},
    {chunk_numel - 1, 1, 2},
    {chunk_numel, chunk_numel},
    {3 * chunk_numel + 17},
    {100, 2 * chunk_numel, 1, 0, 99, chunk_numel / 2, chunk_numel / 2 - 40},
    std::vector<std::int64_t>(300, 1777),
    std::vector<std::int64_t>(9000, 3)};

std::string text_of(Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Folder {
 public:
  Folder() : root_(CheckpointRoot::lock(memory_.file("run"))), checkpoint_(root_.begin(7)) {}

  std::string read(int rank) const {
    return memory_.read("run/" + checkpoint_.name + "/" + rank_file_name(rank));
  }
  void remove(int rank) const {
    std::filesystem::remove(memory_.file("run/" + checkpoint_.name + "/" + rank_file_name(rank)));
  }
  const UnfinishedCheckpoint& checkpoint() const { return checkpoint_; }

  /// Piece by piece, as rank 0.
  FileRecord written(const Rank& rank) const {
    const auto values = [&](const CheckpointPiece& piece, std::int64_t first, std::int64_t count) {
      const auto index = static_cast<std::size_t>(&piece - rank.pieces.data());
      return rank.values[index].subspan(first, count);
    };
    return write_rank_file(system_disk(), checkpoint_, rank_file_name(0), rank.manifest,
                           rank.pieces, values);
  }

 private:
  TemporaryFolder memory_;
  CheckpointRoot root_;
  UnfinishedCheckpoint checkpoint_;
};

}  // namespace

TEST_CASE("checkpoint image: equals the file written piece by piece, for any number of threads") {
  const Folder folder;
  CheckpointImage image;  // reused for all of them, larger and smaller ones in turn
  for (const std::vector<std::int64_t>& cut : cuts) {
    CAPTURE(cut.size());
    CAPTURE(cut.front());
    const Rank rank(cut);
    const FileRecord wanted = folder.written(rank);
    const std::string bytes = folder.read(0);
    folder.remove(0);
    for (const int threads : {1, 2, 5}) {
      CAPTURE(threads);
      image.make(rank.manifest, rank.pieces, rank.values, threads);
      const bool same = text_of(image.bytes()) == bytes;
      CHECK(same);
      CHECK(image.chunks() == wanted.chunks);
      CHECK(reinterpret_cast<std::uintptr_t>(image.bytes().data()) % 4096 == 0);
    }
  }
}

TEST_CASE("checkpoint image: later changes of the values have no effect") {
  Rank rank({3 * chunk_numel + 17});
  CheckpointImage image;
  image.make(rank.manifest, rank.pieces, rank.values, 2);
  const std::string bytes = text_of(image.bytes());
  for (std::vector<float>& held : rank.memory) held.assign(held.size(), 1.0F);
  const bool same = text_of(image.bytes()) == bytes;
  CHECK(same);
}

TEST_CASE("checkpoint image: its memory is reused, and grows") {
  constexpr std::size_t size = std::size_t{64}
                               << 20;  // a new allocation of this size would lose the content
  PageBuffer buffer;
  buffer.reserve(size);
  REQUIRE(buffer.bytes().size() >= size);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 4096 == 0);
  buffer.bytes()[4097] = std::byte{77};
  for (const std::size_t less : {size, std::size_t{1}, size - 1}) {
    buffer.reserve(less);
    CHECK(buffer.bytes().size() >= size);
    CHECK(buffer.bytes()[4097] == std::byte{77});
  }
  buffer.reserve(2 * size + 1);
  CHECK(buffer.bytes().size() > 2 * size);
  buffer.bytes().back() = std::byte{1};
}

TEST_CASE(
    "checkpoint image: written in large blocks, past the page cache except its end, and through "
    "it") {
  const Folder folder;
  for (const std::vector<std::int64_t>& cut :
       {cuts[0], cuts[5], std::vector<std::int64_t>{9 * chunk_numel + 5}}) {
    const Rank rank(cut);
    const FileRecord wanted = folder.written(rank);
    const std::string bytes = folder.read(0);
    CheckpointImage image;
    image.make(rank.manifest, rank.pieces, rank.values, 2);
    for (const Cache cache : {Cache::as_it_is, Cache::refused, Cache::meant_no}) {
      for (const std::size_t most :
           {~std::size_t{0}, std::size_t{100001}, std::size_t{4096 * 100}}) {
        CAPTURE(static_cast<int>(cache));
        CAPTURE(most);
        ParticularDisk disk(cache, most);
        const FileRecord record =
            write_rank_file(disk, folder.checkpoint(), rank_file_name(1), image);
        CHECK(record.num_bytes == wanted.num_bytes);
        CHECK(record.chunks == wanted.chunks);
        CHECK(record.name == rank_file_name(1));
        const bool same = folder.read(1) == bytes;
        CHECK(same);
        folder.remove(1);
        CHECK(disk.crooked == 0);
        if (cache != Cache::as_it_is) CHECK(disk.past == 0);
        const auto whole = static_cast<int>(bytes.size() / 4096 * 4096), block = 8 << 20;
        if (cache == Cache::as_it_is && most == ~std::size_t{0} && disk.past > 0) {
          CHECK(disk.past == (whole + block - 1) / block);
          CHECK(disk.through == (bytes.size() % 4096 == 0 ? 0 : 1));
        }
      }
    }
    folder.remove(0);
  }
}

TEST_CASE("checkpoint image: a disk that is full, broken, or writes nothing, at every write") {
  const Folder folder;
  const Rank rank({5 * chunk_numel + 5});  // two states of it: 10 MiB
  CheckpointImage image;
  image.make(rank.manifest, rank.pieces, rank.values, 1);
  const std::size_t ends[] = {0, 8U << 20, image.bytes().size() / 4096 * 4096};
  for (const auto& [error, said] :
       {std::pair{ENOSPC, "No space left"}, std::pair{EIO, "Input/output error"},
        std::pair{0, "nothing was written"}}) {
    for (int at = 0; at < 3; ++at) {
      CAPTURE(at);
      FullDisk disk(at, error);
      std::string problem;
      try {
        write_rank_file(disk, folder.checkpoint(), rank_file_name(1), image);
      } catch (const Error& caught) {
        CHECK(caught.code() == ErrorCode::io);
        problem = caught.what();
      }
      CAPTURE(problem);
      CHECK(problem.find(said) != std::string::npos);
      CHECK(problem.find(rank_file_name(1) + " cannot be written at byte " +
                         std::to_string(ends[at]) + ":") != std::string::npos);
      folder.remove(1);
    }
  }
}

}  // namespace checkpoint_image_test
