#pragma once
// State in a file of others, as a checkpoint has it.

#include <map>
#include <string>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "verification/tools/train/checkpoints/stored_chunk.hpp"

namespace zeroproof::verification {

class FileState {
 public:
  /// scaled: the buffers that are kept as codes with scales, by name. The file outlives this.
  FileState(const SafetensorsReader& file, std::map<std::string, StateFormat> scaled);

  /// Errors: config, if the file has not a buffer of this tensor, F32 in its shape, or has a part of its stored form,
  /// or one of another format.
  void require(const std::string& state, const CheckpointTensor& tensor) const;

  /// What a checkpoint has of a buffer, or of its scales, from element or block `first` on: whole blocks, but for the
  /// last of a tensor. Codes and scales that the file has are taken bit for bit; values without are stored anew (R25,
  /// Loading). Errors: config, if codes and scales of the file are not its values, naming the first element.
  void read(const std::string& state, const CheckpointTensor& tensor, std::int64_t first,
            Span<float> target) const;

 private:
  StoredChunk stored(StateFormat format, const std::string& state, const CheckpointTensor& tensor,
                     std::int64_t first, std::int64_t count) const;

  const SafetensorsReader& file_;
  std::map<std::string, StateFormat> scaled_;
};

/// Names of the stored form in a file: "exp_avg_code.NAME" and "exp_avg_scale.NAME" of "exp_avg" and "NAME".
std::string code_name(const std::string& state, const std::string& tensor);
std::string scale_name(const std::string& state, const std::string& tensor);

}  // namespace zeroproof::verification
