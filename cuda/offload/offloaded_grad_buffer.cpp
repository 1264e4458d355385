#include "cuda/offload/offloaded_grad_buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/memory.hpp"

namespace zeroproof::cuda {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

std::int64_t page_bytes() { return grad_page_numel() * float_bytes; }

std::int64_t whole_pages(std::int64_t num_bytes) {
  return (num_bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

std::byte* reserve(std::size_t num_bytes) {
  void* const memory =
      ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ZP_CHECK(memory != MAP_FAILED, ErrorCode::unavailable,
           "allocating " + std::to_string(num_bytes) +
               " bytes for a gradient sum failed: " + std::strerror(errno),
           "the system does not have that much memory", "use more ranks, or a smaller model");
  return static_cast<std::byte*>(memory);
}

}  // namespace

OffloadedGradBuffer::OffloadedGradBuffer(const Offload& offload, const StateSplit& split,
                                         MemoryLedger& ledger)
    : ledger_(ledger),
      numel_(split.numel()),
      all_bytes_(static_cast<std::size_t>(whole_pages(numel_ * float_bytes) + 2 * page_bytes())) {
  const std::vector<FlatRange> pages = split.grad_pages(grad_page_numel());
  for (const FlatRange& page : pages) num_bytes_ += page.numel() * float_bytes;
  if (ledger.space().kind == Space::device) {
    memory_ =
        static_cast<std::byte*>(device::shared_allocate(static_cast<std::int64_t>(all_bytes_)));
  } else {
    memory_ = reserve(all_bytes_);
  }
  try {
    if (ledger.space().kind == Space::device) {
      for (const FlatRange& page : pages)
        device::keep_on_host(memory_ + page_bytes() + page.begin * float_bytes,
                             whole_pages(page.numel() * float_bytes));
    } else if (offload.place == OffloadPlace::file) {
      map_file(offload, pages);
    }
  } catch (...) {
    release();
    throw;
  }
  ledger_.remove(MemoryClass::grad_sum, num_bytes_);
}

OffloadedGradBuffer::~OffloadedGradBuffer() {
  if (ledger_.space().kind == Space::device) {
    try {
      ledger_.space().wait();
    } catch (const std::exception&) {  // already reported to the thread that waited for the step
    }
  }
  release();
  ledger_.add(MemoryClass::grad_sum, num_bytes_);
}

void OffloadedGradBuffer::release() noexcept {
  if (ledger_.space().kind == Space::device) {
    device::shared_release(memory_);
  } else {
    ::munmap(memory_, all_bytes_);
  }
}

void OffloadedGradBuffer::map_file(const Offload& offload, const std::vector<FlatRange>& pages) {
  file_ =
      std::make_unique<UnnamedFile>(offload.folder, whole_pages(num_bytes_), "offloaded gradients");
  constexpr std::int64_t most = std::int64_t{1} << 20;
  const std::vector<std::byte> poison(std::min(most, file_->num_bytes()), std::byte{0xFF});
  for (std::int64_t at = 0; at < file_->num_bytes(); at += most)
    file_->put(poison.data(), std::min(most, file_->num_bytes() - at), at);
  std::int64_t at = 0;
  for (const FlatRange& page : pages) {
    const std::int64_t bytes = whole_pages(page.numel() * float_bytes);
    void* const here = memory_ + page_bytes() + page.begin * float_bytes;
    void* const mapped = ::mmap(here, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_FIXED, file_->descriptor(), at);
    if (mapped == MAP_FAILED) file_->refuse("mapped");
    at += bytes;
    constexpr std::int64_t block_numel = std::int64_t{1} << 16;  // 256 KiB: digested by one thread
    for (std::int64_t begin = page.begin; begin < page.end; begin += block_numel)
      blocks_.push_back({begin, std::min(begin + block_numel, page.end)});
  }
}

std::vector<Digest> OffloadedGradBuffer::digests(const Exec& exec) const {
  std::vector<Digest> digests(blocks_.size());
  const auto count = std::ssize(blocks_);
#pragma omp parallel for num_threads(std::max(exec.num_threads, 1)) \
    schedule(static) if (exec.num_threads > 1)
  for (std::int64_t i = 0; i < count; ++i) {
    const FlatRange& block = blocks_[i];
    digests[i] =
        raw_digest(memory_ + page_bytes() + block.begin * float_bytes, block.numel() * float_bytes);
  }
  return digests;
}

void OffloadedGradBuffer::seal(const Exec& exec) {
  if (!file_) return;
  sealed_ = digests(exec);
  is_sealed_ = true;
}

void OffloadedGradBuffer::check(const Exec& exec) const {
  if (!is_sealed_) return;
  const std::vector<Digest> now = digests(exec);
  const auto differs = std::ranges::mismatch(now, sealed_).in1;
  ZP_CHECK(differs == now.end(), ErrorCode::damaged,
           "the gradients offloaded to '" + file_->folder() +
               "' have changed since they were summed, in elements " +
               std::to_string(blocks_[differs - now.begin()].begin) + " to " +
               std::to_string(blocks_[differs - now.begin()].end - 1) + " of the shard",
           "no update used them, and no step can continue from them",
           "resume from the last checkpoint, on a reliable disk");
}

CountedBuffer OffloadedGradBuffer::buffer() {
  std::byte* const memory = memory_ + page_bytes() - GuardedBuffer::guard_bytes;
  GuardedBuffer sum(memory, numel_, DType::fp32, BufferFill::poison, ledger_.space().memory);
  return {ledger_, MemoryClass::grad_sum, std::move(sum), BufferFill::poison};
}

}  // namespace zeroproof::cuda
