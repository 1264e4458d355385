#pragma once
// State in a safetensors file of another program, read like a checkpoint.

#include <map>
#include <string>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "verification/tools/train/checkpoints/stored_chunk.hpp"

namespace zeroproof::verification {

class FileState {
 public:
  /// scaled: names of the buffers that are stored as codes with scales. The file must outlive this
  /// object.
  FileState(const SafetensorsReader& file, std::map<std::string, StateFormat> scaled);

  /// Errors: config, if the file does not have a buffer of this tensor as F32 in its shape, or has
  /// only a part of its stored form, or a stored form of another format.
  void require(const std::string& state, const CheckpointTensor& tensor) const;

  /// Values of a buffer, or its scales, from element or block `first` on, as a checkpoint has them:
  /// whole blocks, except for the last one of a tensor. Codes and scales in the file are copied bit
  /// for bit; values without them are encoded again (R25, Loading). Errors: config, if codes and
  /// scales of the file are not its values; the message names the first such element.
  void read(const std::string& state, const CheckpointTensor& tensor, std::int64_t first,
            Span<float> target) const;

 private:
  StoredChunk stored(StateFormat format, const std::string& state, const CheckpointTensor& tensor,
                     std::int64_t first, std::int64_t count) const;

  const SafetensorsReader& file_;
  std::map<std::string, StateFormat> scaled_;
};

/// Names of the stored form in a file: "exp_avg_code.NAME" and "exp_avg_scale.NAME" of "exp_avg"
/// and "NAME".
std::string code_name(const std::string& state, const std::string& tensor);
std::string scale_name(const std::string& state, const std::string& tensor);

}  // namespace zeroproof::verification
