#include "common/io/write_behind.hpp"

#include <new>
#include <system_error>
#include <utility>

namespace zeroproof {

void WriteBehind::Free::operator()(std::byte* block) const {
  ::operator delete(block, std::align_val_t(direct_alignment));
}

WriteBehind::WriteBehind(Disk& disk, int file, std::string label) : out_(disk, file, std::move(label)) {}

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
    changed_.wait(lock, [&] { return broken_ || put_ - written_ < blocks_.size(); });
    throw_if_broken();
  }
  Block& block = blocks_[put_ % blocks_.size()];
  constexpr auto size = static_cast<std::size_t>(chunk_bytes);
  if (!block.bytes) {
    block.bytes.reset(static_cast<std::byte*>(::operator new(size, std::align_val_t(direct_alignment))));
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
  changed_.wait(lock, [&] { return broken_ || written_ == put_; });
  throw_if_broken();
}

/// False if there is no thread to be had: then blocks are written where they are made.
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
    const Block& block = blocks_[written_ % blocks_.size()];
    lock.unlock();
    write(block);
    lock.lock();
    if (!ends_) ++written_;
    changed_.notify_all();
  }
}

void WriteBehind::write(const Block& block) {
  if (out_.write({block.bytes.get(), block.num_bytes})) return;
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

void WriteBehind::throw_if_broken() const {
  if (broken_) out_.throw_if_broken();
}

}  // namespace zeroproof
