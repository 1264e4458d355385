#include "verification/bench/checkpoint/raw_write.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

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

double raw_write_seconds(const std::string& path, std::int64_t num_bytes) {
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(alignment, block_bytes),
                                                          &std::free);
  ZP_CHECK(block != nullptr, ErrorCode::unavailable, "there is no memory for a block of 8 MiB",
           "nothing can be written from it", "end other programs");
  std::memset(block.get(), 0x5a, block_bytes);
  const std::int64_t whole = (num_bytes + alignment - 1) / alignment * alignment;
  const auto start = std::chrono::steady_clock::now();
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = ::open(path.c_str(), flags | O_DIRECT, 0666);
  if (file < 0 && errno == EINVAL) file = ::open(path.c_str(), flags, 0666);
  require(file >= 0, path, "cannot be made");
  for (std::int64_t done = 0; done < whole;) {
    const ssize_t count =
        ::write(file, block.get(), std::min(block_bytes, static_cast<std::size_t>(whole - done)));
    require(count > 0, path, "cannot be written");
    done += count;
  }
  require(::fsync(file) == 0, path, "did not reach the disk");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  ::close(file);
  ::unlink(path.c_str());
  return elapsed.count();
}

}  // namespace zeroproof::verification::bench
