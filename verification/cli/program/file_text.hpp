#pragma once
// A file as a text.

#include <array>
#include <fstream>
#include <optional>
#include <string>

namespace zeroproof::verification {

/// The whole content; nothing if the file cannot be opened or a read fails, as of /proc/PID/stat
/// after the end of the process. (Iterators over the stream's buffer would throw an exception
/// without the path.)
inline std::optional<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  std::string text;
  std::array<char, 1 << 14> piece;
  do {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  } while (file.good());
  if (file.bad()) return std::nullopt;
  return text;
}

}  // namespace zeroproof::verification
