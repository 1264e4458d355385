#include "common/io/checkpoint/checkpoint_writer.hpp"

#include <algorithm>
#include <cstdio>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_file.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "common/io/checkpoint/rank_file_plan.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t most_at_once = chunk_bytes / 4;

}  // namespace

std::string rank_file_name(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
  return name;
}

std::unique_ptr<CheckpointFile> begin_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                                                const std::string& file_name,
                                                const CheckpointManifest& names,
                                                const std::vector<CheckpointPiece>& pieces,
                                                const PieceValues& values, WriteBuffer* buffer) {
  const RankFilePlan plan = plan_rank_file(names, pieces);
  auto file = std::make_unique<CheckpointFile>(disk, checkpoint.folder.handle(), checkpoint.label,
                                               file_name, buffer);
  file->write(std::as_bytes(Span<const char>(plan.head)));
  for (const std::size_t index : plan.order) {
    const CheckpointPiece& piece = pieces[index];
    for (std::int64_t first = 0; first < piece.numel; first += most_at_once) {
      const std::int64_t count = std::min(most_at_once, piece.numel - first);
      const Span<const float> elements = values(piece, first, count);
      ZP_CHECK(static_cast<std::int64_t>(elements.size()) == count, ErrorCode::internal,
               names.piece_name(piece) + " has " + std::to_string(elements.size()) +
                   " elements instead of " + std::to_string(count) + " from " +
                   std::to_string(first),
               "the file's length would differ from its header", "report it");
      file->write(elements);
    }
  }
  file->end();
  return file;
}

FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                           const std::string& file_name, const CheckpointManifest& names,
                           const std::vector<CheckpointPiece>& pieces, const PieceValues& values) {
  return begin_rank_file(disk, checkpoint, file_name, names, pieces, values)->finish();
}

FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                           const std::string& file_name, const CheckpointImage& image) {
  CheckpointFile file(disk, checkpoint.folder.handle(), checkpoint.label, file_name);
  file.write(image);
  return file.finish();
}

std::string readable_manifest(const UnfinishedCheckpoint& checkpoint,
                              const CheckpointManifest& manifest) {
  std::string text = manifest_text(manifest);
  parse_manifest(text, checkpoint.label + "/" + manifest_name);
  return text;
}

void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const std::string& manifest) {
  CheckpointFile file(disk, checkpoint.folder.handle(), checkpoint.label, manifest_name);
  file.write(std::as_bytes(Span<const char>(manifest)));
  file.finish();
  root.commit(checkpoint);
}

void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const CheckpointManifest& manifest) {
  commit_checkpoint(disk, root, checkpoint, readable_manifest(checkpoint, manifest));
}

void prune_checkpoints(Disk& disk, const CheckpointRoot& root, int keep) {
  std::vector<std::int64_t> steps = root.steps();
  if (static_cast<int>(steps.size()) <= keep) return;
  CheckpointReader(root, steps.back(), disk).verify();
  steps.resize(steps.size() - static_cast<std::size_t>(keep));
  for (const std::int64_t step : steps) root.remove(step);
}

}  // namespace zeroproof
