#pragma once
// A checkpoint of three tensors and two state buffers, split over any number of ranks, whose values
// encode their positions.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "common/io/checkpoint/checkpoint_root.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"

namespace zeroproof::tests {

inline constexpr const char* small_run = "00112233445566778899aabbccddeeff";

inline float small_value(const std::string& state, std::int64_t tensor, std::int64_t element,
                         std::int64_t step) {
  return static_cast<float>(element % 4093) + static_cast<float>(tensor) * 8192.0F +
         static_cast<float>(step) * 65536.0F + (state == "master" ? 0.0F : 0.5F);
}

inline CheckpointManifest small_manifest(std::int64_t step) {
  CheckpointManifest manifest;
  manifest.contract = "1";
  manifest.run = small_run;
  manifest.step = step;
  manifest.about["applied_steps"] = step;
  manifest.tensors = {
      {"embedding", {16, 12}, 0}, {"empty", {0, 7}, 1024}, {"head.weight", {12, 33}, 1024}};
  return manifest;
}

/// Pieces of one of `ranks` ranks: the first tensor in ranges of elements, the last in columns, each of them in two
/// ranges.
inline std::vector<CheckpointPiece> small_pieces(const CheckpointManifest& manifest, int rank,
                                                 int ranks) {
  std::vector<CheckpointPiece> pieces;
  const auto cut = [&](std::int64_t count, int at) { return count * at / ranks; };
  for (const std::string state : {"master", "exp_avg"}) {
    const std::int64_t count = numel(manifest.tensors[0]);
    const std::int64_t begin = cut(count, rank), end = cut(count, rank + 1);
    if (begin < end) pieces.push_back({state, 0, rank, begin, end - begin, count, count, 0});
    const std::int64_t rows = manifest.tensors[2].shape[0], columns = manifest.tensors[2].shape[1];
    const std::int64_t left = cut(columns, rank), width = cut(columns, rank + 1) - left;
    if (width == 0) continue;
    const std::int64_t all = rows * width, half = all / 2 + 1;
    const auto row_numel = width == columns ? all : width,
               row_stride = width == columns ? all : columns;
    pieces.push_back({state, 2, rank, 0, half, row_numel, row_stride, left});
    pieces.push_back({state, 2, rank, half, all - half, row_numel, row_stride, left});
  }
  return pieces;
}

inline FileRecord write_small_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                                   const CheckpointManifest& manifest, int rank, int ranks) {
  std::vector<float> values;
  return write_rank_file(
      disk, checkpoint, rank_file_name(rank), manifest, small_pieces(manifest, rank, ranks),
      [&](const CheckpointPiece& piece, std::int64_t first, std::int64_t count) {
        values.clear();
        for (std::int64_t e = first; e < first + count; ++e)
          values.push_back(small_value(piece.state, piece.tensor, piece.element(e), manifest.step));
        return Span<const float>(values);
      });
}

/// The whole protocol, ranks one after the other.
inline void save_small(Disk& disk, const std::string& path, std::int64_t step, int ranks,
                       int keep = 0) {
  const CheckpointRoot root = CheckpointRoot::lock(path, disk);
  UnfinishedCheckpoint checkpoint = root.begin(step);
  CheckpointManifest manifest = small_manifest(step);
  for (int rank = 0; rank < ranks; ++rank) {
    const UnfinishedCheckpoint joined = root.join(step, checkpoint.name);
    manifest.files.push_back(write_small_file(disk, joined, manifest, rank, ranks));
    for (CheckpointPiece& piece : small_pieces(manifest, rank, ranks))
      manifest.pieces.push_back(std::move(piece));
  }
  commit_checkpoint(disk, root, checkpoint, manifest);
  if (keep > 0) prune_checkpoints(disk, root, keep);
}

/// "" if the checkpoint of that step is complete and has the saved values; else the problem.
inline std::string small_problem(const std::string& path, std::int64_t step) {
  try {
    const CheckpointReader reader(CheckpointRoot(path), step);
    reader.verify();
    const CheckpointManifest& manifest = reader.manifest();
    if (manifest.run != small_run || manifest.tensors != small_manifest(step).tensors)
      return "another manifest";
    for (const std::string state : {"master", "exp_avg"}) {
      for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
        std::vector<float> values(numel(manifest.tensors[t]), -1.0F);
        reader.read(state, static_cast<std::int64_t>(t), 0, values);
        for (std::size_t e = 0; e < values.size(); ++e) {
          if (values[e] !=
              small_value(state, static_cast<std::int64_t>(t), static_cast<std::int64_t>(e), step))
            return state + " of tensor " + std::to_string(t) + " differs at " + std::to_string(e);
        }
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The newest step with a complete checkpoint, -1 if there is none; `problem` is set if a folder
/// with a checkpoint's name is incomplete.
inline std::int64_t newest_whole(const std::string& path, std::string& problem) {
  std::int64_t newest = -1;
  for (const std::int64_t step : CheckpointRoot(path).steps()) {
    const std::string found = small_problem(path, step);
    if (found.empty()) newest = step;
    if (!found.empty()) problem = found;
  }
  return newest;
}

}  // namespace zeroproof::tests
