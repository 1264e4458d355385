#include "common/io/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/canonical_copy.hpp"
#include "common/base/error.hpp"
#include "common/io/files/direct_writer.hpp"

namespace zeroproof {
namespace {

constexpr auto chunk_size = static_cast<std::size_t>(chunk_bytes);

}  // namespace

CheckpointFile::CheckpointFile(Disk& disk, int folder, const std::string& where,
                               const std::string& name, WriteBuffer* buffer)
    : disk_(disk), label_(where + "/" + name), file_(disk, disk.create(folder, name.c_str())) {
  ZP_CHECK(file_.is_open(), ErrorCode::io, label_ + " cannot be created: " + std::strerror(errno),
           "the checkpoint would be incomplete and is not kept", "check the folder and the disk");
  record_.name = name;
  writer_ = std::make_unique<WriteBehind>(disk_, file_.handle(), label_, buffer);
}

Span<std::byte> CheckpointFile::free_bytes() {
  if (block_.empty()) block_ = writer_->block();
  return block_.subspan(filled_, hashed_ + chunk_size - filled_);
}

void CheckpointFile::fill(std::size_t num_bytes) {
  filled_ += num_bytes;
  if (filled_ == hashed_ + chunk_size) hash();
  if (filled_ == block_.size()) put();
}

void CheckpointFile::write(Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Span<std::byte> to = free_bytes();
    const std::size_t count = std::min(bytes.size(), to.size());
    std::copy_n(bytes.begin(), count, to.begin());
    bytes = bytes.subspan(count);
    fill(count);
  }
}

void CheckpointFile::write(Span<const float> values) {
  while (!values.empty()) {
    const Span<std::byte> bytes = free_bytes();
    ZP_CHECK(bytes.size() % sizeof(float) == 0, ErrorCode::internal,
             label_ + " gets numbers at a byte that is not a multiple of 4",
             "a chunk would end inside of a number", "report it");
    const std::size_t count = std::min(values.size(), bytes.size() / sizeof(float));
    copy_canonical(values.first(count), bytes);
    values = values.subspan(count);
    fill(count * sizeof(float));
  }
}

void CheckpointFile::write(const CheckpointImage& image) {
  constexpr auto block_bytes = static_cast<std::size_t>(write_block_bytes);
  Span<const std::byte> bytes = image.bytes();
  record_.num_bytes = static_cast<std::int64_t>(bytes.size());
  record_.chunks = image.chunks();
  DirectWriter out(disk_, file_.handle(), label_);
  out.go_past_cache();
  while (!bytes.empty()) {
    const std::size_t whole = bytes.size() / direct_alignment * direct_alignment;
    const std::size_t count = whole > 0 ? std::min(whole, block_bytes) : bytes.size();
    if (!out.write(bytes.first(count))) out.throw_if_broken();
    bytes = bytes.subspan(count);
  }
}

void CheckpointFile::hash() {
  const auto count = static_cast<std::int64_t>(filled_ - hashed_);
  record_.chunks.push_back(raw_digest(block_.data() + hashed_, count));
  record_.num_bytes += count;
  hashed_ = filled_;
}

void CheckpointFile::put() {
  writer_->put(filled_);
  block_ = {};
  filled_ = hashed_ = 0;
}

FileRecord CheckpointFile::end() {
  if (filled_ > hashed_) hash();
  if (filled_ > 0) put();
  return record_;
}

FileRecord CheckpointFile::finish() {
  end();
  writer_->finish();
  writer_.reset();
  const bool synced = disk_.sync(file_.handle()) == 0;
  const int sync_error = errno;
  const bool closed = file_.close() == 0;
  ZP_CHECK(synced && closed, ErrorCode::io,
           label_ + " did not reach the disk: " + std::strerror(synced ? errno : sync_error),
           "its content is unknown, and the checkpoint is removed",
           "check the disk; earlier checkpoints are untouched");
  return std::move(record_);
}

}  // namespace zeroproof
