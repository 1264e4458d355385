#pragma once
// Content of a checkpoint. A folder with a manifest that matches its files is a checkpoint, any
// other is not.
//
//     {"hash":"<XXH3-128 of the bytes of the manifest's own text>","manifest":{
//       "format": "zeroproof-checkpoint", "version": 1, "contract": "1.0", "run": "5f0c...", "step": 50,
//       "about": {...},                                     counters, loss scaler, settings, hash of the log's line
//       "tensors": [{"name": "embedding.weight", "shape": [256, 128], "begin": 0}, ...],
//       "files": [{"name": "rank-00000.safetensors", "bytes": 524288, "chunks": ["<XXH3-128 of each MiB>", ...]}, ...],
//       "pieces": [{"state": "exp_avg", "tensor": 0, "file": 0, "first": 0, "numel": 32768,
//                   "row_numel": 32768, "row_stride": 32768, "offset": 0}, ...]}}

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/json.hpp"

namespace zeroproof {

/// A tensor of the undistributed model, unpadded.
struct CheckpointTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< index of its first element in the numbering of R13

  bool operator==(const CheckpointTensor&) const = default;
};

/// Elements of one state buffer of one tensor, as one tensor of one file, named piece_name(). The e-th of them
/// is element  offset + i / row_numel * row_stride + i % row_numel  of the undistributed tensor, with i = first + e:
/// a range of the columns that a TP rank has of it. Of whole rows, row_numel and row_stride are the tensor's elements.
struct CheckpointPiece {
  std::string state;        ///< name of the buffer: "master", "exp_avg"
  std::int64_t tensor = 0;  ///< index in the manifest
  std::int64_t file = 0;    ///< index in the manifest
  std::int64_t first = 0;
  std::int64_t numel = 0;
  std::int64_t row_numel = 1;
  std::int64_t row_stride = 1;
  std::int64_t offset = 0;

  std::int64_t element(std::int64_t e) const {
    const std::int64_t i = first + e;
    return offset + i / row_numel * row_stride + i % row_numel;
  }
  bool operator==(const CheckpointPiece&) const = default;
};

struct CheckpointManifest {
  std::string contract;  ///< version of the numeric contract whose bits these are
  std::string run;  ///< 32 hexadecimal digits: the same for all checkpoints of a run, unique to it
  std::int64_t step = 0;  ///< steps made so far, skipped ones too
  Json about = Json::object();
  std::vector<CheckpointTensor> tensors;
  std::vector<FileRecord> files;
  std::vector<CheckpointPiece> pieces;

  /// "exp_avg.embedding.weight" for a whole tensor; followed by "@FIRST" for a part.
  std::string piece_name(const CheckpointPiece& piece) const;
};

std::int64_t numel(const CheckpointTensor& tensor);

/// Number of entries of a state buffer for a tensor: its elements; for a name that ends with
/// "_scale", one entry for every scale_block_numel of them (R25), which its pieces count.
std::int64_t numel_of(const std::string& state, const CheckpointTensor& tensor);
inline constexpr std::int64_t scale_block_numel = 128;
bool is_scale_name(const std::string& state);

/// The text; equal manifests have equal texts.
std::string manifest_text(const CheckpointManifest& manifest);

/// Errors: damaged, if the text is not the output of manifest_text(), or its content is invalid
/// (each file and piece is checked: names, sizes, number of chunks, that every element of every
/// state of a tensor is there exactly once; in "about" the description of a training and "state");
/// unavailable, for one of a later version. `label`: the file in messages.
CheckpointManifest parse_manifest(std::string_view text, const std::string& label);

/// Errors: damaged, if "state" of a manifest's "about" lacks a counter, or one has another type or
/// is out of range.
void require_counters(const Json& state, const std::string& label);

/// Part of the manifest that one rank sends to another: its file and the pieces in it.
Json part_json(const FileRecord& file, const std::vector<CheckpointPiece>& pieces);
/// Errors: JsonError, or damaged, for texts that part_json() did not write.
void read_part(const Json& part, FileRecord& file, std::vector<CheckpointPiece>& pieces);

}  // namespace zeroproof
