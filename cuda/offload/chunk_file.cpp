#include "cuda/offload/chunk_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

namespace {

/// Of the header and the first chunk, which is the longest, in whole lines.
std::int64_t stride_of(std::int64_t header_bytes, const std::vector<std::int64_t>& numels,
                       std::int64_t num_buffers) {
  constexpr std::int64_t line = 64;
  if (numels.empty()) return 0;
  const std::int64_t longest = numels.front() * num_buffers * static_cast<std::int64_t>(sizeof(float));
  return (header_bytes + longest + line - 1) / line * line;
}

}  // namespace

ChunkFile::ChunkFile(const std::string& folder, const std::vector<std::int64_t>& numels,
                     std::int64_t num_buffers)
    : numels_(numels),
      num_buffers_(num_buffers),
      stride_(stride_of(static_cast<std::int64_t>(sizeof(Header)), numels, num_buffers)),
      file_(folder, stride_ * static_cast<std::int64_t>(numels.size()), "offloaded state"),
      written_(numels.size(), Header{}) {
  if (num_bytes() == 0) return;
  void* const mapped =
      ::mmap(nullptr, static_cast<std::size_t>(num_bytes()), PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (mapped == MAP_FAILED) file_.refuse("mapped");
  mapped_ = static_cast<const std::byte*>(mapped);
}

ChunkFile::~ChunkFile() {
  if (mapped_ == nullptr) return;
  ::munmap(const_cast<std::byte*>(mapped_), static_cast<std::size_t>(num_bytes()));
}

std::int64_t ChunkFile::bytes_of(std::int64_t chunk) const {
  return numels_[static_cast<std::size_t>(chunk)] * num_buffers_ * static_cast<std::int64_t>(sizeof(float));
}

void ChunkFile::read_ahead(std::int64_t chunk) const {
  static const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  const std::int64_t begin = chunk * stride_ / page * page;
  const std::int64_t end = std::min(num_bytes(), (chunk + 1) * stride_);
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
           "chunk " + std::to_string(chunk) + " of the state offloaded to '" + file_.folder() +
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
  file_.put(&next, sizeof(next), chunk * stride_);
  file_.put(slot.memory.data(), num_bytes, chunk * stride_ + static_cast<std::int64_t>(sizeof(next)));
}

}  // namespace zeroproof::cuda
