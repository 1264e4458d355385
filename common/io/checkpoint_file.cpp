#include "common/io/checkpoint_file.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "common/base/dtype.hpp"
#include "common/base/error.hpp"

namespace zeroproof {

CheckpointFile::CheckpointFile(Disk& disk, int folder, const std::string& where, const std::string& name)
    : disk_(disk), label_(where + "/" + name), file_(disk, disk.create(folder, name.c_str())) {
  ZP_CHECK(file_.is_open(), ErrorCode::io, label_ + " cannot be made: " + std::strerror(errno),
           "the checkpoint would be incomplete and is not kept", "check the folder and the disk");
  record_.name = name;
  writer_ = std::make_unique<WriteBehind>(disk_, file_.handle(), label_);
}

Span<std::byte> CheckpointFile::room() {
  if (chunk_.empty()) chunk_ = writer_->block();
  return chunk_.subspan(filled_);
}

void CheckpointFile::fill(std::size_t num_bytes) {
  filled_ += num_bytes;
  if (filled_ == chunk_.size()) put();
}

void CheckpointFile::write(Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Span<std::byte> to = room();
    const std::size_t count = std::min(bytes.size(), to.size());
    std::copy_n(bytes.begin(), count, to.begin());
    bytes = bytes.subspan(count);
    fill(count);
  }
}

void CheckpointFile::write(Span<const float> values) {
  using Float = Format<float>;
  while (!values.empty()) {
    const Span<std::byte> bytes = room();
    ZP_CHECK(bytes.size() % sizeof(float) == 0, ErrorCode::internal,
             label_ + " gets numbers at a byte that 4 does not divide", "a chunk would end inside of one",
             "report it");
    auto* const to = reinterpret_cast<Float::Bits*>(bytes.data());
    const std::size_t count = std::min(values.size(), bytes.size() / sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<Float::Bits>(values[i]);
      to[i] = Float::is_nan(bits) ? Float::magnitude : bits;
    }
    values = values.subspan(count);
    fill(count * sizeof(float));
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
