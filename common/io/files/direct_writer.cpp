#include "common/io/files/direct_writer.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

bool is_aligned(Span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % direct_alignment == 0 &&
         bytes.size() % direct_alignment == 0;
}

}  // namespace

DirectWriter::DirectWriter(Disk& disk, int file, std::string label)
    : disk_(disk), file_(file), label_(std::move(label)) {}

void DirectWriter::go_past_cache() { direct_ = disk_.set_direct(file_, true); }

bool DirectWriter::write(Span<const std::byte> bytes) {
  while (!bytes.empty() && !broken()) {
    // The end of the file, and the rest of a short write.
    if (direct_ && !is_aligned(bytes)) direct_ = !disk_.set_direct(file_, false);
    const ssize_t count = disk_.write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINVAL && direct_) {  // O_DIRECT was accepted but does not work
      direct_ = false;
      disk_.set_direct(file_, false);
      continue;
    }
    if (count <= 0) {
      error_ = count == 0 ? 0 : (errno != 0 ? errno : EIO);
      took_nothing_ = count == 0;
      break;
    }
    num_bytes_ += count;
    bytes = bytes.subspan(count);
  }
  return !broken();
}

void DirectWriter::throw_if_broken() const {
  ZP_CHECK(!broken(), ErrorCode::io,
           label_ + " cannot be written at byte " + std::to_string(num_bytes_) + ": " +
               (took_nothing_ ? "nothing was written" : std::strerror(error_)),
           "the checkpoint would be incomplete and is not kept",
           "check the free space and the disk; earlier checkpoints are untouched");
}

}  // namespace zeroproof
