#include "common/io/checkpoint_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

constexpr auto chunk_size = static_cast<std::size_t>(chunk_bytes);

}  // namespace

CheckpointFile::CheckpointFile(Disk& disk, int folder, const std::string& where, const std::string& name)
    : disk_(disk), label_(where + "/" + name), file_(disk, disk.create(folder, name.c_str())) {
  ZP_CHECK(file_.is_open(), ErrorCode::io, label_ + " cannot be made: " + std::strerror(errno),
           "the checkpoint would be incomplete and is not kept", "check the folder and the disk");
  record_.name = name;
  writer_ = std::make_unique<WriteBehind>(disk_, file_.handle(), label_);
}

void CheckpointFile::write(Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (block_.empty()) block_ = writer_->block();
    const std::size_t count = std::min(bytes.size(), chunk_size - (filled_ - hashed_));
    std::copy_n(bytes.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ - hashed_ == chunk_size) hash();
    if (filled_ == block_.size()) put();
  }
}

void CheckpointFile::hash() {
  record_.chunks.push_back(raw_digest(block_.data() + hashed_, static_cast<std::int64_t>(filled_ - hashed_)));
  hashed_ = filled_;
}

void CheckpointFile::put() {
  if (hashed_ < filled_) hash();
  record_.num_bytes += static_cast<std::int64_t>(filled_);
  writer_->put(filled_);
  block_ = {};
  filled_ = hashed_ = 0;
}

FileRecord CheckpointFile::finish() {
  if (filled_ > 0) put();
  writer_->finish();
  writer_.reset();
  const bool synced = disk_.sync(file_.handle()) == 0;
  const int sync_error = errno;
  const bool closed = file_.close() == 0;
  ZP_CHECK(synced && closed, ErrorCode::io,
           label_ + " did not reach the disk: " + std::strerror(synced ? errno : sync_error),
           "what is in it now is not known, and the checkpoint is not kept",
           "check the disk; earlier checkpoints are untouched");
  return std::move(record_);
}

}  // namespace zeroproof
