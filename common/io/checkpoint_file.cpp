#include "common/io/checkpoint_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/error.hpp"

namespace zeroproof {

CheckpointFile::CheckpointFile(Disk& disk, int folder, const std::string& where, const std::string& name)
    : disk_(disk), label_(where + "/" + name), file_(disk, disk.create(folder, name.c_str())) {
  ZP_CHECK(file_.is_open(), ErrorCode::io, label_ + " cannot be made: " + std::strerror(errno),
           "the checkpoint would be incomplete and is not kept", "check the folder and the disk");
  record_.name = name;
  writer_ = std::make_unique<WriteBehind>(disk_, file_.handle(), label_);
}

void CheckpointFile::write(Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (chunk_.empty()) chunk_ = writer_->block();
    const std::size_t count = std::min(bytes.size(), chunk_.size() - filled_);
    std::copy_n(bytes.begin(), count, chunk_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ == chunk_.size()) put();
  }
}

void CheckpointFile::put() {
  record_.chunks.push_back(raw_digest(chunk_.data(), static_cast<std::int64_t>(filled_)));
  record_.num_bytes += static_cast<std::int64_t>(filled_);
  writer_->put(filled_);
  chunk_ = {};
  filled_ = 0;
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
