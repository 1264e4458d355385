#include "verification/cli/program/file_digest.hpp"

#include <algorithm>
#include <vector>

#include "common/base/digest.hpp"
#include "common/io/files/byte_source.hpp"

namespace zeroproof::verification {

std::string file_digest(const std::string& path) {
  const auto source = open_file_source(path);
  Hasher hasher;
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < source->size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(source->size() - at, 1 << 20));
    source->read(at, piece);
    const Digest digest = raw_digest(piece.data(), static_cast<std::int64_t>(piece.size()));
    hasher.add(digest.high);
    hasher.add(digest.low);
  }
  return to_hex(hasher.digest());
}

}  // namespace zeroproof::verification
