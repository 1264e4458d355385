#include "verification/tools/train/checkpoints/reshard.hpp"

#include <algorithm>
#include <vector>

#include "common/base/error.hpp"
#include "common/checkpoint/own_pieces.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/cli/program/free_space.hpp"

namespace zeroproof::verification {
namespace {

/// Elements [first, first + values.size()) of a piece in its own order, from one or several files.
void read_piece(const CheckpointReader& from, const CheckpointPiece& piece, std::int64_t first,
                Span<float> values) {
  const auto end = first + static_cast<std::int64_t>(values.size());
  for (std::int64_t e = first; e < end;) {
    const std::int64_t count =
        std::min(end - e, piece.row_numel - (piece.first + e) % piece.row_numel);
    from.read(piece.state, piece.tensor, piece.element(e), values.subspan(e - first, count));
    e += count;
  }
}

}  // namespace

std::string reshard(const CheckpointReader& from, const Experiment& experiment,
                    const CaseSpec& spec, const std::string& folder,
                    const std::function<void(std::int64_t)>& progress, Disk& disk) {
  const CaseLayout layout(experiment, spec, spec.world.size);
  CheckpointManifest manifest = from.manifest();
  ZP_CHECK(manifest.tensors == checkpoint_tensors(experiment.layout()), ErrorCode::damaged,
           from.label() + " has other tensors than its own training",
           "they cannot be split among ranks", "name one that zeroproof train wrote");
  std::vector<std::string> states;  // in the order of the saved manifest
  std::uint64_t elements = 0;
  for (const CheckpointPiece& piece : manifest.pieces) {
    elements += static_cast<std::uint64_t>(piece.numel);
    if (std::find(states.begin(), states.end(), piece.state) == states.end())
      states.push_back(piece.state);
  }
  manifest.files.clear();
  manifest.pieces.clear();
  manifest.about["place"] = spec.id();

  require_free_space(folder, 4 * elements);
  const CheckpointRoot root = CheckpointRoot::lock(folder, disk);
  UnfinishedCheckpoint unfinished = root.begin(manifest.step);
  try {
    std::vector<float> values;
    for (int rank = 0; rank < spec.world.size; ++rank) {
      const RankCoords coords = layout.place(rank);
      const CaseLayout::Local& local = layout.local(coords.tp_rank);
      const std::vector<OwnPiece> own =
          own_pieces({local.layout, local.shards.shard(coords.shard_rank), local.placement,
                      coords.instance == 0, coords.tp_rank == 0},
                     experiment.layout());
      const std::vector<OwnPiece> blocks = scales_of(own, experiment.layout(), layout.grid().tp);
      std::vector<CheckpointPiece> pieces;
      for (const std::string& state : states) {
        for (const OwnPiece& one : is_scale_name(state) ? blocks : own) {
          pieces.push_back(one.piece);
          pieces.back().state = state;
        }
      }
      if (pieces.empty()) continue;
      const FileRecord file = write_rank_file(
          disk, unfinished, rank_file_name(rank), manifest, pieces,
          [&](const CheckpointPiece& piece, std::int64_t first, std::int64_t count) {
            values.resize(count);
            read_piece(from, piece, first, values);
            if (progress) progress(count * 4);
            return Span<const float>(values);
          });
      for (CheckpointPiece& piece : pieces) {
        piece.file = static_cast<std::int64_t>(manifest.files.size());
        manifest.pieces.push_back(std::move(piece));
      }
      manifest.files.push_back(file);
    }
    commit_checkpoint(disk, root, unfinished, manifest);
  } catch (...) {
    root.sweep();
    throw;
  }
  return folder + "/" + checkpoint_name(manifest.step);
}

}  // namespace zeroproof::verification
