#pragma once
// Content of a safetensors file: named tensors, their positions, and a dictionary of texts.
// Format: 8 bytes little-endian length, that many bytes of JSON, then the data (huggingface/safetensors, README).

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.hpp"

namespace zeroproof {

/// Element types of the format, a superset of DType.
enum class SafeDType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  f8_e8m0
};
inline constexpr int num_safe_dtypes = 16;

/// "F32" and so on, as written in files.
std::string_view name(SafeDType dtype);
std::optional<SafeDType> parse_safe_dtype(std::string_view text);
std::int64_t num_bytes(SafeDType dtype);

/// The file's element type for a buffer's, and back: nothing for one that no buffer has.
SafeDType safe_dtype(DType dtype);
std::optional<DType> buffer_dtype(SafeDType dtype);

/// Name, type and shape: the input of a writer.
struct SafeTensorSpec {
  std::string name;
  SafeDType dtype = SafeDType::f32;
  std::vector<std::int64_t> shape;  ///< no dimension means one element
};

/// A tensor of a file. Its bytes are [begin, end), counted from the first byte after the header.
struct SafeTensor : SafeTensorSpec {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t num_bytes() const { return end - begin; }
  std::int64_t numel() const { return num_bytes() / zeroproof::num_bytes(dtype); }
};

using SafeMetadata = std::map<std::string, std::string>;

/// A consistent header. The deque grows without moving, so that no single allocation is large.
struct SafetensorsHeader {
  std::deque<SafeTensor>
      tensors;  ///< in the order of their data; tensors without data by name among themselves
  std::vector<std::uint32_t> by_name;  ///< indices into tensors, sorted by name
  SafeMetadata metadata;
  std::int64_t data_begin = 0;  ///< position in the file
  std::int64_t data_bytes = 0;

  /// nullptr if no tensor has that name.
  const SafeTensor* find(std::string_view tensor_name) const;

  /// Fills by_name. Returns a name that appears twice, or nullptr.
  const std::string* index_names();
};

/// The format's own limit of header sizes.
inline constexpr std::int64_t largest_safetensors_header = 100'000'000;

/// Limits of a reader, and of a writer's output.
struct SafetensorsLimits {
  std::int64_t header_bytes = std::int64_t{16} << 20;  ///< up to largest_safetensors_header
  std::int64_t tensors = std::int64_t{1} << 19;
  std::int64_t metadata_entries = std::int64_t{1} << 16;
  std::int64_t text_bytes = std::int64_t{4}
                            << 20;  ///< of one text; a JSON parser copies it a few times
  std::int64_t rank = 64;
  std::int64_t name_bytes = 1024;
};

/// Reason why a name is invalid for a tensor, "" if it is valid. Names are printed in reports and
/// on terminals, so control characters are rejected; text that is not UTF-8 cannot be written as
/// JSON.
std::string safetensors_name_problem(std::string_view name, const SafetensorsLimits& limits = {});

/// A name for messages: quoted, control characters escaped, long ones shortened.
std::string shown_name(std::string_view name);

}  // namespace zeroproof
