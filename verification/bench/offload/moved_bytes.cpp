#include "verification/bench/offload/moved_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"

namespace zeroproof::verification::bench {
namespace {

void require(bool holds, const std::string& folder, const char* what) {
  ZP_CHECK(holds, ErrorCode::io, "a file in " + folder + " " + what + ": " + std::strerror(errno),
           "state in a file is compared with bytes that are only moved", "name another folder, or make room");
}

}  // namespace

MovedBytes::MovedBytes(const std::string& folder, std::int64_t num_bytes, std::int64_t chunk_bytes,
                       int threads)
    : folder_(folder),
      share_bytes_((num_bytes + threads - 1) / threads),
      block_bytes_((chunk_bytes + threads - 1) / threads) {
  for (int i = 0; i < threads; ++i) {
    const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    require(file >= 0, folder_, "cannot be made");
    shares_.push_back({file, GuardedBuffer((block_bytes_ + 3) / 4, DType::u32)});
    move(shares_.back(), true);
  }
}

MovedBytes::~MovedBytes() {
  for (const Share& share : shares_) ::close(share.file);
}

void MovedBytes::move() {
  const auto count = static_cast<int>(shares_.size());
  parallel_for(count, count, [&](std::int64_t i) { move(shares_[static_cast<std::size_t>(i)], false); });
}

void MovedBytes::move(const Share& share, bool first) const {
  for (std::int64_t at = 0; at < share_bytes_; at += block_bytes_) {
    const std::int64_t bytes = std::min(block_bytes_, share_bytes_ - at);
    const auto wanted = static_cast<std::size_t>(bytes);
    if (!first)
      require(::pread(share.file, share.block.data(), wanted, at) == bytes, folder_, "cannot be read");
    require(::pwrite(share.file, share.block.data(), wanted, at) == bytes, folder_, "cannot be written");
  }
}

}  // namespace zeroproof::verification::bench
