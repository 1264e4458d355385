#include "cuda/offload/chunk_file.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

namespace {

constexpr std::int64_t line = 64;

constexpr std::int64_t header_bytes = 32;

std::int64_t whole_lines(std::int64_t num_bytes) { return (num_bytes + line - 1) / line * line; }

/// Unit in which every buffer has whole cache lines, or whole blocks of state where there are
/// scales.
std::int64_t unit_of(const std::vector<OffloadedBuffer>& buffers) {
  std::int64_t narrowest = sizeof(float);
  for (const OffloadedBuffer& buffer : buffers) {
    if (is_state_scale(buffer.id)) return state_block_numel;
    narrowest = std::min(narrowest, num_bytes(buffer.dtype));
  }
  return line / narrowest;
}

Digest digest_of(const std::vector<Digest>& digests) {
  return raw_digest(digests.data(), static_cast<std::int64_t>(digests.size() * sizeof(Digest)));
}

std::int64_t system_page() {
  static const auto bytes = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Whether the page of a byte is in memory. False if the system does not report it.
bool is_there(const std::byte* byte) {
  unsigned char there = 0;
  const auto at = reinterpret_cast<std::uintptr_t>(byte);
  void* const page = const_cast<std::byte*>(byte) - at % static_cast<std::uintptr_t>(system_page());
  return ::mincore(page, 1, &there) == 0 && (there & 1U) != 0;
}

/// Calls body(part) for every part, on the threads that process the same part of a loop over
/// elements. Throws the error of the first part that failed.
template <class Body>
void for_parts(int num_threads, std::int64_t num_parts, const Body& body) {
  std::vector<std::exception_ptr> errors(num_parts);
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads, num_parts));
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (std::int64_t part = 0; part < num_parts; ++part) {
    try {
      body(part);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

ChunkFile::ChunkFile(const std::string& folder, const std::vector<std::int64_t>& numels,
                     std::vector<OffloadedBuffer> buffers, const Exec& exec)
    : numels_(numels),
      buffers_(std::move(buffers)),
      unit_(unit_of(buffers_)),
      num_threads_(std::max(exec.num_threads, 1)) {
  static_assert(sizeof(Header) == header_bytes);
  if (numels_.empty()) return;
  stride_ = whole_lines(header_bytes + offloaded_bytes(buffers_, elements(0, 0).numel()));
  const std::int64_t num_bytes = stride_ * static_cast<std::int64_t>(numels_.size());
  for (Part& part : parts_) {
    part.written.resize(numels_.size());
    part.file = std::make_unique<UnnamedFile>(folder, num_bytes, "offloaded state");
    void* const mapped = ::mmap(nullptr, static_cast<std::size_t>(num_bytes), PROT_READ, MAP_SHARED,
                                part.file->descriptor(), 0);
    if (mapped == MAP_FAILED) part.file->refuse("mapped");
    part.mapped = static_cast<const std::byte*>(mapped);
  }
}

ChunkFile::~ChunkFile() {
  for (const Part& part : parts_) {
    if (part.mapped == nullptr) continue;
    ::munmap(const_cast<std::byte*>(part.mapped), static_cast<std::size_t>(part.file->num_bytes()));
  }
}

FlatRange ChunkFile::elements(std::int64_t part, std::int64_t chunk) const {
  const std::int64_t numel = this->numel(chunk);
  const std::int64_t each = (numel + num_parts * unit_ - 1) / (num_parts * unit_) * unit_;
  return {std::min(part * each, numel), std::min((part + 1) * each, numel)};
}

void ChunkFile::read_ahead(std::int64_t chunk) const {
  for (const Part& part : parts_) {
    const std::int64_t begin = chunk * stride_ / system_page() * system_page();
    const std::int64_t end = (chunk + 1) * stride_;
    if (is_there(part.mapped + begin) && is_there(part.mapped + end - 1)) continue;
    // A hint: a system that ignores it reads later.
    ::madvise(const_cast<std::byte*>(part.mapped) + begin, static_cast<std::size_t>(end - begin),
              MADV_WILLNEED);
  }
}

void ChunkFile::read(std::int64_t chunk, Slot& slot) const {
  slot.chunk = -1;
  for_parts(num_threads_, num_parts,
            [&](std::int64_t part) { read_part(part, chunk, slot.memory.data()); });
  slot.chunk = chunk;
  slot.version = version_of(chunk);
}

void ChunkFile::read_part(std::int64_t part, std::int64_t chunk, std::byte* memory) const {
  const Part& from = parts_[part];
  const FlatRange here = elements(part, chunk);
  const std::byte* at = from.mapped + chunk * stride_;
  Header header;
  std::memcpy(&header, at, sizeof(header));
  at += sizeof(header);
  std::vector<Digest> digests;
  for (const OffloadedBuffer& buffer : buffers_) {
    std::byte* const to = memory + buffer.num_bytes(here.begin);
    const std::int64_t bytes = buffer.num_bytes(here.numel());
    std::memcpy(to, at, static_cast<std::size_t>(bytes));
    digests.push_back(raw_digest(to, bytes));
    at += bytes;
    memory += buffer.num_bytes(numel(chunk));
  }
  const Header& written = from.written[chunk];
  ZP_CHECK(header == written && digest_of(digests) == written.digest, ErrorCode::damaged,
           "chunk " + std::to_string(chunk) + " of the state offloaded to '" + from.file->folder() +
               "' is not its version " + std::to_string(written.version),
           "the file does not hold the last data written, so no step can continue from it",
           "resume from the last checkpoint, on a reliable disk");
}

void ChunkFile::take(std::int64_t chunk, Slot& slot) const {
  slot.memory.poison();
  slot.chunk = chunk;
  slot.version = version_of(chunk);
}

void ChunkFile::write(std::int64_t chunk, Slot& slot) {
  ZP_CHECK(slot.chunk == chunk && slot.version == version_of(chunk), ErrorCode::internal,
           "version " + std::to_string(slot.version) + " of chunk " + std::to_string(slot.chunk) +
               " would overwrite version " + std::to_string(version_of(chunk)) + " of chunk " +
               std::to_string(chunk),
           "an update would be lost or applied twice", "report this with the command line");
  slot.chunk = -1;
  for_parts(num_threads_, num_parts,
            [&](std::int64_t part) { write_part(part, chunk, slot.memory.data()); });
}

void ChunkFile::write_part(std::int64_t part, std::int64_t chunk, const std::byte* memory) {
  Part& to = parts_[part];
  const FlatRange here = elements(part, chunk);
  Header& written = to.written[chunk];
  Header next{static_cast<std::uint64_t>(chunk), written.version + 1, {}};
  std::vector<Digest> digests;
  std::vector<iovec> pieces = {{&next, sizeof(next)}};
  for (const OffloadedBuffer& buffer : buffers_) {
    const std::byte* const from = memory + buffer.num_bytes(here.begin);
    const std::int64_t bytes = buffer.num_bytes(here.numel());
    digests.push_back(raw_digest(from, bytes));
    pieces.push_back({const_cast<std::byte*>(from), static_cast<std::size_t>(bytes)});
    memory += buffer.num_bytes(numel(chunk));
  }
  next.digest = digest_of(digests);
  // First, so that a partial write is detected as damaged and not taken for the old version.
  written = next;
  to.file->put(pieces, chunk * stride_);
}

}  // namespace zeroproof::cuda
