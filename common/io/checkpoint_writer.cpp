#include "common/io/checkpoint_writer.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "common/base/error.hpp"
#include "common/io/checkpoint_file.hpp"
#include "common/io/checkpoint_names.hpp"
#include "common/io/checkpoint_reader.hpp"
#include "common/io/safetensors_header.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t most_at_once = chunk_bytes / 4;

}  // namespace

std::string rank_file_name(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
  return name;
}

FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint, const std::string& file_name,
                           const CheckpointManifest& names, const std::vector<CheckpointPiece>& pieces,
                           const PieceValues& values) {
  std::vector<SafeTensorSpec> specs;
  std::map<std::string, const CheckpointPiece*> by_name;
  for (const CheckpointPiece& piece : pieces) {
    const CheckpointTensor& tensor = names.tensors[static_cast<std::size_t>(piece.tensor)];
    const bool is_whole =
        piece.numel == numel(tensor) && piece.row_numel == piece.row_stride && !is_scale_name(piece.state);
    specs.push_back({names.piece_name(piece), SafeDType::f32,
                     is_whole ? tensor.shape : std::vector<std::int64_t>{piece.numel}});
    by_name[specs.back().name] = &piece;
  }
  SafetensorsLimits limits;
  limits.header_bytes = largest_safetensors_header;
  const SafetensorsHeader header =
      plan_safetensors(specs, {{"run", names.run}, {"step", std::to_string(names.step)}}, limits);

  CheckpointFile file(disk, checkpoint.folder.handle(), checkpoint.label, file_name);
  const std::string text = safetensors_header_text(header);
  const std::uint64_t length = text.size();
  file.write(std::as_bytes(Span<const std::uint64_t>(&length, 1)));
  file.write(std::as_bytes(Span<const char>(text)));
  for (const SafeTensor& tensor : header.tensors) {
    const CheckpointPiece& piece = *by_name.at(tensor.name);
    for (std::int64_t first = 0; first < piece.numel; first += most_at_once) {
      const std::int64_t count = std::min(most_at_once, piece.numel - first);
      const Span<const float> elements = values(piece, first, count);
      ZP_CHECK(static_cast<std::int64_t>(elements.size()) == count, ErrorCode::internal,
               tensor.name + " has " + std::to_string(elements.size()) + " elements instead of " +
                   std::to_string(count) + " from " + std::to_string(first),
               "the file would end somewhere else than its header says", "report it");
      file.write(elements);
    }
  }
  return file.finish();
}

void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const CheckpointManifest& manifest) {
  const std::string text = manifest_text(manifest);
  parse_manifest(text, checkpoint.label + "/" + manifest_name);
  CheckpointFile file(disk, checkpoint.folder.handle(), checkpoint.label, manifest_name);
  file.write(std::as_bytes(Span<const char>(text)));
  file.finish();
  root.commit(checkpoint);
}

void prune_checkpoints(Disk& disk, const CheckpointRoot& root, int keep) {
  std::vector<std::int64_t> steps = root.steps();
  if (static_cast<int>(steps.size()) <= keep) return;
  CheckpointReader(root, steps.back(), disk).verify();
  steps.resize(steps.size() - static_cast<std::size_t>(keep));
  for (const std::int64_t step : steps) root.remove(step);
}

}  // namespace zeroproof
