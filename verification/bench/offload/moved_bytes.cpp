#include "verification/bench/offload/moved_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <vector>

#include "common/base/error.hpp"

namespace zeroproof::verification::bench {
namespace {

void require(bool holds, const std::string& folder, const char* what) {
  ZP_CHECK(holds, ErrorCode::io, "a file in " + folder + " " + what + ": " + std::strerror(errno),
           "state in a file is compared with bytes that are only moved", "name another folder, or make room");
}

}  // namespace

MovedBytes::MovedBytes(const std::string& folder, std::int64_t num_bytes, std::int64_t chunk_bytes)
    : folder_(folder),
      num_bytes_(num_bytes),
      chunk_bytes_(chunk_bytes),
      num_chunks_((num_bytes + chunk_bytes - 1) / chunk_bytes),
      file_(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
  require(file_ >= 0, folder_, "cannot be made");
  const std::vector<std::byte> block(static_cast<std::size_t>(chunk_bytes_), std::byte{0x5a});
  for (std::int64_t chunk = 0; chunk < num_chunks_; ++chunk) write(chunk, block.data());
}

MovedBytes::~MovedBytes() { ::close(file_); }

void MovedBytes::move() {
  std::array<std::vector<std::byte>, 2> blocks;
  for (auto& block : blocks) block.resize(static_cast<std::size_t>(chunk_bytes_));
  read(0, blocks[0].data());
  for (std::int64_t chunk = 0; chunk < num_chunks_; ++chunk) {
    auto& here = blocks[static_cast<std::size_t>(chunk % 2)];
    auto& next = blocks[static_cast<std::size_t>((chunk + 1) % 2)];
    std::future<void> arriving;
    if (chunk + 1 < num_chunks_)
      arriving = std::async(std::launch::async, [&, chunk] { read(chunk + 1, next.data()); });
    write(chunk, here.data());
    if (arriving.valid()) arriving.get();
  }
}

void MovedBytes::read(std::int64_t chunk, void* block) const {
  const std::int64_t wanted = bytes_of(chunk);
  require(::pread(file_, block, static_cast<std::size_t>(wanted), chunk * chunk_bytes_) == wanted, folder_,
          "cannot be read");
}

void MovedBytes::write(std::int64_t chunk, const void* block) const {
  const std::int64_t wanted = bytes_of(chunk);
  require(::pwrite(file_, block, static_cast<std::size_t>(wanted), chunk * chunk_bytes_) == wanted, folder_,
          "cannot be written");
}

std::int64_t MovedBytes::bytes_of(std::int64_t chunk) const {
  return std::min(chunk_bytes_, num_bytes_ - chunk * chunk_bytes_);
}

}  // namespace zeroproof::verification::bench
