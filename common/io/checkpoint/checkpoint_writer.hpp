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

/// Elements [first, first + numel) of a piece, one of those that are written, in its order. The memory may be reused
/// for the next.
using PieceValues = std::function<Span<const float>(const CheckpointPiece& piece,
                                                    std::int64_t first, std::int64_t numel)>;

/// Writes the pieces of one rank, in the order of the file: all of them are given when it returns, and their end may be
/// on its way to the disk still. `values` is asked for each piece from front to back, for at most 1 MiB at a time.
/// room: kept from one save to the next, or null. Errors (ErrorCode::io): the disk is full or broken; what was written
/// stays in the unfinished folder.
std::unique_ptr<CheckpointFile> begin_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                                                const std::string& file_name,
                                                const CheckpointManifest& names,
                                                const std::vector<CheckpointPiece>& pieces,
                                                const PieceValues& values,
                                                WriteBuffer* room = nullptr);

/// The same, and makes the file durable.
FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                           const std::string& file_name, const CheckpointManifest& names,
                           const std::vector<CheckpointPiece>& pieces, const PieceValues& values);

/// The same of one that was made beforehand.
FileRecord write_rank_file(Disk& disk, const UnfinishedCheckpoint& checkpoint,
                           const std::string& file_name, const CheckpointImage& image);

/// The manifest's text. Errors (ErrorCode::damaged): nobody could read it (a state that is not whole: a defect of
/// whoever saves).
std::string readable_manifest(const UnfinishedCheckpoint& checkpoint,
                              const CheckpointManifest& manifest);

/// Writes the manifest, of which this is the text, and commits. All files it names are durable by then. Errors
/// (ErrorCode::io).
void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const std::string& manifest);

/// Both. Errors: of both.
void commit_checkpoint(Disk& disk, const CheckpointRoot& root, UnfinishedCheckpoint& checkpoint,
                       const CheckpointManifest& manifest);

/// Removes all checkpoints but the newest `keep` ones (1 or more), the last of them only after it was read again, every
/// byte. Errors: damaged or io, if the newest one is not what was written; then nothing is removed.
void prune_checkpoints(Disk& disk, const CheckpointRoot& root, int keep);

}  // namespace zeroproof
