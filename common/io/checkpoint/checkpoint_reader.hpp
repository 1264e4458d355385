#pragma once
// A committed checkpoint: no byte of it is used before its hash was verified.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/checkpoint_root.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"

namespace zeroproof {

class CheckpointReader {
 public:
  /// Reads the manifest and the headers of all files. Errors: damaged, naming the file, and the
  /// chunk of 1 MiB if a hash differs, or if a file is missing, is a link, a folder, a pipe or a
  /// device, or does not belong to it; io, if there is no such checkpoint, it was removed while it
  /// was read, or a file cannot be read.
  CheckpointReader(const CheckpointRoot& root, std::int64_t step, Disk& disk = system_disk());

  const std::string& label() const { return label_; }  ///< its folder
  const CheckpointManifest& manifest() const { return manifest_; }
  std::int64_t num_bytes() const;  ///< of all files in the manifest

  /// Reads every byte. `progress` is called with the bytes read since the last call. Errors: as above.
  void verify(const std::function<void(std::int64_t)>& progress = {}) const;

  /// Elements [first, first + target.size()) of a state buffer of a tensor of the undistributed model, in its order,
  /// whichever rank wrote which of them. Holds 16 chunks at most, of all files. fp32. Errors:
  /// invalid_argument for an unknown state or range; damaged and io as above.
  void read(const std::string& state, std::int64_t tensor, std::int64_t first,
            Span<float> target) const;

  /// True if there is such a state buffer.
  bool has(const std::string& state) const;

  /// False if the folder was removed or replaced since it was opened.
  bool is_there() const;

 private:
  void open_files(std::int64_t step, Disk& disk);
  /// What `read` throws, or io if the checkpoint was removed meanwhile.
  template <class Read>
  void guarded(const Read& read) const;
  const SafeTensor& stored(const CheckpointPiece& piece) const;

  std::string label_;
  CheckpointManifest manifest_;
  OpenFile folder_;
  std::vector<SafetensorsReader> files_;  // in the order of the manifest
  std::map<std::string, std::map<std::int64_t, std::vector<std::int64_t>>>
      pieces_;  // by state and tensor, indices into the manifest
};

}  // namespace zeroproof
