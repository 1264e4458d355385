#pragma once
// The parts of a save: a rank's file, and the manifest that makes a checkpoint of all of them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_file.hpp"
#include "common/io/checkpoint/checkpoint_image.hpp"
#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/checkpoint_root.hpp"

namespace zeroproof {

/// "rank-00003.safetensors"
std::string rank_file_name(int rank);

/// Elements [first, first + numel) of a piece, in the order of the pieces. The memory may be reused
/// for the next call.
using PieceValues = std::function<Span<const float>(const CheckpointPiece& piece,
                                                    std::int64_t first, std::int64_t numel)>;

/// Writes the pieces of one rank, in the order of the file: all of them are passed to the file when
/// it returns, and its last blocks may still be in progress. `values` is called for each piece from
/// front to back, for at most 1 MiB at a time. buffer: reused from save to save, or null. Errors
/// (ErrorCode::io): the disk is full or broken; the written part stays in the unfinished folder.
std::unique_ptr<CheckpointFile> begin_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                                                const std::string& file_name,
                                                const CheckpointManifest& names,
                                                const std::vector<CheckpointPiece>& pieces,
                                                const PieceValues& values,
                                                WriteBuffer* buffer = nullptr);

/// The same, and makes the file durable.
FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                           const std::string& file_name, const CheckpointManifest& names,
                           const std::vector<CheckpointPiece>& pieces, const PieceValues& values);

/// The same for a file made beforehand.
FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                           const std::string& file_name, const CheckpointImage& image);

/// The manifest's text. Errors (ErrorCode::damaged): it could not be read back (incomplete state: a
/// defect of the caller).
std::string readable_manifest(const UnfinishedCheckpoint& checkpoint,
                              const CheckpointManifest& manifest);

/// Writes the manifest with this text, and commits. All files it lists must be durable. Errors
/// (ErrorCode::io).
void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const std::string& manifest);

/// Both. Errors: of both.
void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const CheckpointManifest& manifest);

/// Removes all checkpoints but the newest `keep` ones (1 or more), after the newest was read and
/// verified completely. Errors: damaged or io, if the newest one is damaged; then nothing is
/// removed.
void prune_checkpoints(Disk& disk, const CheckpointRoot& root, int keep);

}  // namespace zeroproof
