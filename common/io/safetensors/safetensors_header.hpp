#pragma once
// Reading and writing the JSON header of a safetensors file.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

/// Parses the JSON text of a header and checks everything that can be checked without the data: JSON,
/// keys, types, names, shapes against byte counts, and that the tensors fill `data_bytes` without gap or
/// overlap. `label` is the file in messages; `data_bytes` are the bytes after the header.
///
/// Memory   no single allocation is larger than 2 x text.size() + 64 KiB and all together stay below
///          10 x text.size() + 64 KiB, for any text.
/// Errors   ErrorCode::io, naming the file and the tensor, or the byte of the file where the JSON becomes invalid.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::string& label,
                                           const SafetensorsLimits& limits = {});

/// Places the tensors one after another, largest elements first and then by name, so that every tensor is
/// aligned and the same tensors always give the same file. Errors (ErrorCode::invalid_argument): a name or
/// shape that parse_safetensors_header would reject, or a repeated name.
SafetensorsHeader plan_safetensors(const std::vector<SafeTensorSpec>& tensors,
                                   SafeMetadata metadata, const SafetensorsLimits& limits = {});

/// The JSON text of a header, padded with spaces to a multiple of 8 bytes. Errors
/// (ErrorCode::invalid_argument): metadata that is not UTF-8.
std::string safetensors_header_text(const SafetensorsHeader& header);

/// Product of the dimensions, or nothing if it exceeds 2^53 (not counting dimensions of 0) or one is negative.
std::optional<std::int64_t> safetensors_numel(const std::vector<std::int64_t>& shape);

}  // namespace zeroproof
