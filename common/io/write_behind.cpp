#include "common/io/write_behind.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

// What writes past the page cache begin at and have the length of: the page, which is no smaller than a disk's block.
constexpr std::size_t alignment = 4096;

bool is_aligned(const std::byte* bytes, std::size_t count) {
  return reinterpret_cast<std::uintptr_t>(bytes) % alignment == 0 && count % alignment == 0;
}

}  // namespace

void WriteBehind::Free::operator()(std::byte* block) const {
  ::operator delete(block, std::align_val_t(alignment));
}

WriteBehind::WriteBehind(Disk& disk, int file, std::string label)
    : disk_(disk), file_(file), label_(std::move(label)) {}

WriteBehind::~WriteBehind() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    written_ = put_;  // nobody waits for the rest
  }
  changed_.notify_all();
  writer_.join();
}

Span<std::byte> WriteBehind::block() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return broken() || put_ - written_ < blocks_.size(); });
    throw_if_broken();
  }
  Block& block = blocks_[put_ % blocks_.size()];
  constexpr auto size = static_cast<std::size_t>(chunk_bytes);
  if (!block.bytes) {
    block.bytes.reset(static_cast<std::byte*>(::operator new(size, std::align_val_t(alignment))));
  }
  return {block.bytes.get(), size};
}

void WriteBehind::put(std::size_t num_bytes) {
  Block& block = blocks_[put_ % blocks_.size()];
  block.num_bytes = num_bytes;
  // A file of one block, as most are that are not a rank's, is written where it is made.
  const bool more = num_bytes == static_cast<std::size_t>(chunk_bytes);
  const bool behind = writer_.joinable() || (more && start());
  if (!behind) write(block);
  {
    const std::lock_guard lock(mutex_);
    ++put_;
    if (!behind) ++written_;
  }
  changed_.notify_all();
}

void WriteBehind::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return broken() || written_ == put_; });
  throw_if_broken();
}

/// False if there is no thread to be had: then blocks are written where they are made.
bool WriteBehind::start() {
  direct_ = disk_.set_direct(file_, true);
  try {
    writer_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void WriteBehind::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || written_ < put_; });
    if (ends_ || broken()) return;
    const Block& block = blocks_[written_ % blocks_.size()];
    lock.unlock();
    write(block);
    lock.lock();
    if (!ends_) ++written_;
    changed_.notify_all();
  }
}

void WriteBehind::write(const Block& block) {
  const std::byte* from = block.bytes.get();
  for (std::size_t left = block.num_bytes; left > 0;) {
    // The end of the file, and what a short write left.
    if (direct_ && !is_aligned(from, left)) direct_ = !disk_.set_direct(file_, false);
    const ssize_t count = disk_.write(file_, from, left);
    if (count < 0 && errno == EINVAL && direct_) {  // said yes, and means no
      direct_ = false;
      disk_.set_direct(file_, false);
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (count <= 0) {
      error_ = count == 0 ? 0 : (errno != 0 ? errno : EIO);
      took_nothing_ = count == 0;
      return;
    }
    num_bytes_ += count;
    from += count;
    left -= static_cast<std::size_t>(count);
  }
}

void WriteBehind::throw_if_broken() const {
  ZP_CHECK(!broken(), ErrorCode::io,
           label_ + " cannot be written at byte " + std::to_string(num_bytes_) + ": " +
               (took_nothing_ ? "nothing was taken" : std::strerror(error_)),
           "the checkpoint would be incomplete and is not kept",
           "check the free space and the disk; earlier checkpoints are untouched");
}

}  // namespace zeroproof
