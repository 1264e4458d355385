#pragma once

#include <cstdint>
#include <string>

namespace zeroproof::verification::bench {

/// What the disk can do: one file of so many bytes, in blocks of 8 MiB from memory that is ready, past the page cache
/// where the file system lets it, made durable and removed. Seconds until it was durable. Errors (ErrorCode::io).
double raw_write_seconds(const std::string& path, std::int64_t num_bytes);

}  // namespace zeroproof::verification::bench
