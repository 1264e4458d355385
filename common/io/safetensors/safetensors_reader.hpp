#pragma once
// Reads tensors one at a time, or in pieces, without loading the whole file.

#include <functional>
#include <memory>
#include <string>

#include "common/io/files/byte_source.hpp"
#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

class SafetensorsReader {
 public:
  /// Reads and checks the header; data are read later. Errors (ErrorCode::io), all with the file's name: it is
  /// missing or not a regular file, or its header is rejected (parse_safetensors_header, and the length in front
  /// of it against the file and the limits, before anything of that size is allocated).
  static SafetensorsReader open(const std::string& path, const SafetensorsLimits& limits = {});

  /// The same for memory, which must outlive the reader.
  static SafetensorsReader from_memory(Span<const std::byte> bytes, const std::string& label,
                                       const SafetensorsLimits& limits = {});

  /// The same for any source.
  static SafetensorsReader from_source(std::unique_ptr<ByteSource> source,
                                       const SafetensorsLimits& limits = {});

  const std::string& label() const { return source_->label(); }
  const SafetensorsHeader& header() const { return header_; }
  const SafeMetadata& metadata() const { return header_.metadata; }

  /// nullptr if the file has no such tensor.
  const SafeTensor* find(std::string_view tensor_name) const { return header_.find(tensor_name); }

  /// Bytes [first_byte, first_byte + target.size()) of a tensor of this file. Several threads may call at once.
  /// Errors: invalid_argument outside the tensor; io if the file cannot be read or became shorter.
  void read(const SafeTensor& tensor, std::int64_t first_byte, Span<std::byte> target) const;

  /// All bytes of a tensor, in pieces of at most chunk_bytes (rounded down to whole elements), in order.
  void for_each_chunk(const SafeTensor& tensor,
                      const std::function<void(Span<const std::byte>)>& use,
                      std::int64_t chunk_bytes = std::int64_t{1} << 20) const;

 private:
  SafetensorsReader(std::unique_ptr<ByteSource> source, const SafetensorsLimits& limits);

  std::unique_ptr<ByteSource> source_;
  SafetensorsHeader header_;
};

}  // namespace zeroproof
