#pragma once
// Writes tensors one at a time, or in pieces, in any order.

#include <string>
#include <vector>

#include "common/io/files/replacing_file.hpp"
#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

class SafetensorsWriter {
 public:
  /// Plans the file (plan_safetensors: the same tensors give the same bytes, in any order) and
  /// writes its header. Errors: invalid_argument if a reader with these limits would reject it; io as
  /// ReplacingFile.
  SafetensorsWriter(const std::string& path, const std::vector<SafeTensorSpec>& tensors,
                    SafeMetadata metadata = {}, const SafetensorsLimits& limits = {});

  /// Appends bytes to a tensor. Errors: invalid_argument for an unknown name or more bytes than the shape has;
  /// io if the disk is full or broken.
  void write(std::string_view tensor_name, Span<const std::byte> bytes);

  /// Renames the file to its final name. Without it, the file is removed. Errors: invalid_argument if a
  /// tensor is incomplete, or if called twice; io.
  void finish();

 private:
  SafetensorsHeader header_;
  ReplacingFile file_;
  std::vector<std::int64_t> written_;  ///< bytes, by the tensor's index in header_.by_name
  bool finished_ = false;
};

}  // namespace zeroproof
