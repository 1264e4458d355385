#include "cuda/device/sim/foreign_kernels.hpp"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device/sim/current.hpp"

namespace zeroproof::cuda::device {

void* native_stream() {
  return const_cast<std::shared_ptr<sim::WorkQueue>*>(&sim::current_queue());
}

}  // namespace zeroproof::cuda::device

namespace sim = zeroproof::cuda::sim;

namespace {

constexpr std::int32_t most_shared_bytes = 48 * 1024;  // more needs an attribute of the kernel

/// The thread-local memory of a library, on the calling thread. As shared memory it begins each
/// block as 0xFF bytes; the values of the host come back at the end.
class LibraryShared {
 public:
  explicit LibraryShared(const zeroproof_sim_kernel& kernel) : kernel_(kernel) {
    begin_ = kernel.shared();  // from here on the memory exists
    ::dl_iterate_phdr(find, this);
    host_.assign(begin_, begin_ + num_bytes_);
  }
  ~LibraryShared() { std::copy(host_.begin(), host_.end(), begin_); }
  LibraryShared(const LibraryShared&) = delete;
  LibraryShared& operator=(const LibraryShared&) = delete;

  void poison() { std::memset(begin_, 0xFF, num_bytes_); }

  void check() const {
    for (const auto* array = kernel_.arrays; array != nullptr; array = array->next) {
      const unsigned char* data = array->data();
      const bool intact = std::all_of(data + kernel_.shared_bytes, data + array->capacity,
                                      [](unsigned char byte) { return byte == 0xFF; });
      ZP_CHECK(intact, zeroproof::ErrorCode::internal,
               "a kernel wrote past its " + std::to_string(kernel_.shared_bytes) +
                   " bytes of dynamic shared memory",
               "", "launch it with as many bytes as it uses");
    }
  }

 private:
  static int find(dl_phdr_info* library, std::size_t, void* self_pointer) {
    LibraryShared& self = *static_cast<LibraryShared*>(self_pointer);
    auto* const data = static_cast<unsigned char*>(library->dlpi_tls_data);
    if (data == nullptr) return 0;
    for (int i = 0; i < library->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = library->dlpi_phdr[i];
      if (segment.p_type != PT_TLS || self.begin_ < data || self.begin_ >= data + segment.p_memsz)
        continue;
      self.begin_ = data;
      self.num_bytes_ = segment.p_memsz;
      return 1;
    }
    return 0;
  }

  const zeroproof_sim_kernel& kernel_;
  unsigned char* begin_;
  std::size_t num_bytes_ = 0;
  std::vector<unsigned char> host_;
};

void run_kernel(const zeroproof_sim_kernel& kernel) {
  LibraryShared shared(kernel);
  sim::run(kernel.grid, kernel.block, [&] { kernel.thread(kernel.arguments); },
           {[&] { shared.poison(); }, [&] { shared.check(); }});
}

}  // namespace

const sim::Index* zeroproof_sim_index(std::int32_t which) {
  switch (which) {
    case 0:
      return &sim::threadIdx;
    case 1:
      return &sim::blockIdx;
    case 2:
      return &sim::blockDim;
    default:
      return &sim::gridDim;
  }
}

std::int32_t zeroproof_sim_barrier(std::int32_t predicate, std::int32_t line) {
  return static_cast<std::int32_t>(sim::wait_for_block(line, predicate != 0));
}

std::uint64_t zeroproof_sim_exchange(std::uint32_t mask, std::uint64_t bits, std::uint32_t source,
                                     std::int32_t line) {
  return sim::exchange(mask, bits, source, line);
}

std::int32_t zeroproof_sim_launch(void* stream, const zeroproof_sim_kernel* kernel) {
  const std::shared_ptr<void> kept(kernel->arguments, kernel->release);
  if (kernel->shared_bytes < 0 || kernel->shared_bytes > most_shared_bytes) return -1;
  try {
    sim::check_launch(kernel->grid, kernel->block);
  } catch (const zeroproof::Error&) {
    return -1;  // no exception may pass through foreign code
  }
  const std::lock_guard lock(sim::device_mutex());
  (*static_cast<std::shared_ptr<sim::WorkQueue>*>(stream))
      ->push({[given = *kernel, kept] { run_kernel(given); }, {}});
  return 0;
}
