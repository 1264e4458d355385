#pragma once
// Safetensors files built by hand, valid and invalid, byte by byte, without the code under test.

#include <cstdint>
#include <string>
#include <string_view>

namespace zeroproof::tests {

/// 8 bytes, little endian.
inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xFFU);
  return bytes;
}

/// Header padded with spaces to a multiple of 8, then the data.
inline std::string safetensors_bytes(std::string header, std::string_view data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return length_bytes(header.size()) + header + std::string(data);
}

/// The same without padding: the header is unchanged.
inline std::string unpadded_bytes(std::string_view header, std::string_view data) {
  return length_bytes(header.size()) + std::string(header) + std::string(data);
}

/// `"name":{"dtype":...}`, every part as JSON text so that it can be invalid.
inline std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}";
}

inline std::string zeros(std::size_t count) { return std::string(count, '\0'); }

/// Two tensors, an empty one, a scalar and metadata: 131 bytes of header or so, for mutations.
inline std::string small_file() {
  return safetensors_bytes(
      "{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "F32", "[2,3]", "[0,24]") + "," +
          entry("b", "I16", "[]", "[24,26]") + "," + entry("c", "U8", "[0,4]", "[26,26]") + "}",
      "abcdefghijklmnopqrstuvwxyz");
}

}  // namespace zeroproof::tests
