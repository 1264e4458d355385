#include "common/io/checkpoint/write_behind.hpp"

#include <system_error>
#include <utility>

namespace zeroproof {

WriteBehind::WriteBehind(Disk& disk, int file, std::string label, WriteBuffer* buffer)
    : out_(disk, file, std::move(label)), buffer_(buffer != nullptr ? *buffer : own_) {}

WriteBehind::~WriteBehind() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    written_ = put_;  // the rest is dropped
  }
  changed_.notify_all();
  writer_.join();
}

Span<std::byte> WriteBehind::block() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return broken_ || put_ - written_ < buffer_.size(); });
    throw_if_broken();
  }
  constexpr auto size = static_cast<std::size_t>(write_block_bytes);
  PageBuffer& block = buffer_[put_ % buffer_.size()];
  block.reserve(size);
  return block.bytes().first(size);
}

void WriteBehind::put(std::size_t num_bytes) {
  sizes_[put_ % sizes_.size()] = num_bytes;
  // A file of one block, as most that are not a rank's, is written on the calling thread.
  const bool more = num_bytes == static_cast<std::size_t>(write_block_bytes);
  const bool behind = writer_.joinable() || (more && start());
  if (!behind) write(put_);
  {
    const std::lock_guard lock(mutex_);
    ++put_;
    if (!behind) ++written_;
  }
  changed_.notify_all();
}

void WriteBehind::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return broken_ || written_ == put_; });
  throw_if_broken();
}

/// False if no thread can be started: then blocks are written on the calling thread.
bool WriteBehind::start() {
  out_.go_past_cache();
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
    if (ends_ || broken_) return;
    const std::size_t block = written_;
    lock.unlock();
    write(block);
    lock.lock();
    if (!ends_) ++written_;
    changed_.notify_all();
  }
}

void WriteBehind::write(std::size_t block) {
  const std::size_t at = block % buffer_.size();
  if (out_.write(buffer_[at].bytes().first(sizes_[at]))) return;
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

void WriteBehind::throw_if_broken() const {
  if (broken_) out_.throw_if_broken();
}

}  // namespace zeroproof
