#pragma once

#include <string>

namespace zeroproof::verification {

/// Digest of a file's bytes, 32 hexadecimal digits; read in pieces. Errors: as open_file_source.
std::string file_digest(const std::string& path);

}  // namespace zeroproof::verification
