#include "verification/bench/checkpoint/raw_write.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "common/base/error.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr std::size_t block_bytes = std::size_t{8} << 20;
constexpr std::int64_t alignment = 4096;

void require(bool holds, const std::string& path, const char* what) {
  ZP_CHECK(holds, ErrorCode::io, path + " " + what + ": " + std::strerror(errno),
           "saves are compared with a file that is written straight", "name another folder, or make room");
}

}  // namespace

RawWrite::RawWrite(std::int64_t num_bytes, RawPages pages)
    : num_bytes_(static_cast<std::size_t>((num_bytes + alignment - 1) / alignment * alignment)) {
  if (pages == RawPages::huge) {
    huge_.reserve(num_bytes_);
    bytes_ = huge_.bytes().data();
  } else {
    ordinary_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, num_bytes_)));
    bytes_ = ordinary_.get();
    if (bytes_ == nullptr) throw std::bad_alloc();
  }
  std::memset(bytes_, 0x5a, num_bytes_);
}

double RawWrite::seconds(const std::string& path) const {
  Span<const std::byte> bytes(bytes_, num_bytes_);
  const auto start = std::chrono::steady_clock::now();
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = ::open(path.c_str(), flags | O_DIRECT, 0666);
  if (file < 0 && errno == EINVAL) file = ::open(path.c_str(), flags, 0666);
  require(file >= 0, path, "cannot be made");
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), std::min(block_bytes, bytes.size()));
    require(count > 0, path, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  require(::fsync(file) == 0, path, "did not reach the disk");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  ::close(file);
  ::unlink(path.c_str());
  return elapsed.count();
}

}  // namespace zeroproof::verification::bench
