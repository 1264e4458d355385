#include "cuda/offload/chunk_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

ChunkFile::ChunkFile(const std::string& folder, const std::vector<std::int64_t>& numels,
                     std::int64_t num_buffers)
    : folder_(folder), numels_(numels), num_buffers_(num_buffers), written_(numels.size(), Header{}) {
  std::error_code none;
  if (folder_.empty()) folder_ = std::filesystem::temp_directory_path(none).string();
  if (numels_.empty()) return;
  constexpr std::int64_t line = 64;
  stride_ = (static_cast<std::int64_t>(sizeof(Header)) + bytes_of(0) + line - 1) / line * line;
  num_bytes_ = stride_ * static_cast<std::int64_t>(numels_.size());
  std::string path = folder_ + "/zeroproof-offload-XXXXXX";
  file_ = ::mkstemp(path.data());
  if (file_ < 0) refuse("made");
  ::unlink(path.c_str());
  void* mapped = MAP_FAILED;
  if (::ftruncate(file_, num_bytes_) == 0) {
    mapped = ::mmap(nullptr, static_cast<std::size_t>(num_bytes_), PROT_READ, MAP_SHARED, file_, 0);
  }
  if (mapped == MAP_FAILED) {
    const int error = errno;
    ::close(file_);
    errno = error;
    refuse("mapped");
  }
  mapped_ = static_cast<const std::byte*>(mapped);
}

ChunkFile::~ChunkFile() {
  if (file_ < 0) return;
  ::munmap(const_cast<std::byte*>(mapped_), static_cast<std::size_t>(num_bytes_));
  ::close(file_);
}

void ChunkFile::refuse(const char* what) const {
  fail(ErrorCode::io,
       "a file of " + std::to_string(num_bytes_) + " bytes for offloaded state in '" + folder_ +
           "' could not be " + what + ": " + std::strerror(errno),
       "the state of those elements would be lost, so the run ends here; what was saved before is as it was",
       "make room there, choose another folder (--offload-place file:FOLDER), or offload a smaller fraction");
}

std::int64_t ChunkFile::bytes_of(std::int64_t chunk) const {
  return numels_[static_cast<std::size_t>(chunk)] * num_buffers_ * static_cast<std::int64_t>(sizeof(float));
}

void ChunkFile::read_ahead(std::int64_t chunk) const {
  static const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  const std::int64_t begin = chunk * stride_ / page * page;
  const std::int64_t end = std::min(num_bytes_, (chunk + 1) * stride_);
  // Advice: a system that does not take it reads later.
  ::madvise(const_cast<std::byte*>(mapped_) + begin, static_cast<std::size_t>(end - begin), MADV_WILLNEED);
}

void ChunkFile::read(std::int64_t chunk, Slot& slot) const {
  const std::byte* at = mapped_ + chunk * stride_;
  slot.chunk = -1;
  Header header;
  std::memcpy(&header, at, sizeof(header));
  std::memcpy(slot.memory.data(), at + sizeof(header), static_cast<std::size_t>(bytes_of(chunk)));
  const Header& written = written_[static_cast<std::size_t>(chunk)];
  ZP_CHECK(header == written && raw_digest(slot.memory.data(), bytes_of(chunk)) == written.digest,
           ErrorCode::damaged,
           "chunk " + std::to_string(chunk) + " of the state offloaded to '" + folder_ +
               "' is not its version " + std::to_string(written.version),
           "the file holds something that was not written there last, and no step may go on from it",
           "resume from the last checkpoint, with a disk that keeps what it is given");
  slot.chunk = chunk;
  slot.version = written.version;
}

void ChunkFile::take(std::int64_t chunk, Slot& slot) const {
  slot.memory.poison();
  slot.chunk = chunk;
  slot.version = written_[static_cast<std::size_t>(chunk)].version;
}

void ChunkFile::write(std::int64_t chunk, Slot& slot) {
  Header& written = written_[static_cast<std::size_t>(chunk)];
  ZP_CHECK(slot.chunk == chunk && slot.version == written.version, ErrorCode::internal,
           "version " + std::to_string(slot.version) + " of chunk " + std::to_string(slot.chunk) +
               " was to be written over version " + std::to_string(written.version) + " of chunk " +
               std::to_string(chunk),
           "an update would be lost, or made twice", "report this with the command line");
  const std::int64_t num_bytes = bytes_of(chunk);
  const Header next{static_cast<std::uint64_t>(chunk), written.version + 1,
                    raw_digest(slot.memory.data(), num_bytes)};
  slot.chunk = -1;
  written = next;  // first: what is half written is then damaged, and not the version before
  put(&next, sizeof(next), chunk * stride_);
  put(slot.memory.data(), num_bytes, chunk * stride_ + static_cast<std::int64_t>(sizeof(next)));
}

/// Not through the mapping, where a full disk would be a signal.
void ChunkFile::put(const void* data, std::int64_t num_bytes, std::int64_t at) const {
  const auto* bytes = static_cast<const std::byte*>(data);
  while (num_bytes > 0) {
    const ssize_t done = ::pwrite(file_, bytes, static_cast<std::size_t>(num_bytes), at);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ENOSPC;
    if (done <= 0) refuse("written");
    bytes += done;
    at += done;
    num_bytes -= done;
  }
}

}  // namespace zeroproof::cuda
