#include "common/comm/mpi/mpi_window.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/comm/mpi/mpi_handles.hpp"
#include "common/comm/mpi_session.hpp"
#include "common/comm/window_layout.hpp"

namespace zeroproof {

namespace {

class MpiWindow final : public SharedWindow {
 public:
  MpiWindow(MPI_Win window, std::vector<Span<std::byte>> blocks, Communicator& comm,
            BlockingLimit limit)
      : window_(window), blocks_(std::move(blocks)), comm_(comm), limit_(std::move(limit)) {}
  ~MpiWindow() override;

  Span<std::byte> of(int rank) const override { return blocks_.at(rank); }

  void fence() override {
    sync();
    comm_.barrier();
    sync();
  }

 private:
  void sync() {
    const std::lock_guard lock(mpi_mutex());
    check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
  }

  MPI_Win window_;
  std::vector<Span<std::byte>> blocks_;  // [world_size]
  Communicator& comm_;
  const BlockingLimit limit_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

/// MPI frees the memory when all ranks are here, and waits until they are. If they will not come,
/// it stays allocated until the process ends.
MpiWindow::~MpiWindow() {
  if (std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    comm_.barrier();
    const BlockingCall blocking(limit_);
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  } catch (const std::exception&) {
    // Stored in the communicator, which throws it in its next call.
  }
}

}  // namespace

std::unique_ptr<SharedWindow> make_mpi_window(MpiNative& native,
                                              const std::vector<std::int64_t>& sizes,
                                              Communicator& comm, const BlockingLimit& limit) {
  const MPI_Comm node = native.handles(limit).node;
  const std::size_t self = static_cast<std::size_t>(comm.rank());
  std::vector<Span<std::byte>> blocks;
  MPI_Win window = MPI_WIN_NULL;
  {
    const BlockingCall blocking(limit);
    void* base = nullptr;
    // Rank 0 requests the bytes that align all blocks, as MPI aligns for 8 bytes only. The parts of
    // the ranks are contiguous, and at the same page offset in every process.
    const std::size_t own = padded_window_bytes(sizes[self]) + (self == 0 ? window_alignment : 0);
    check_mpi(
        MPI_Win_allocate_shared(static_cast<MPI_Aint>(own), 1, MPI_INFO_NULL, node, &base, &window),
        "MPI_Win_allocate_shared of " + std::to_string(sizes[self]) + " bytes");
    MPI_Aint num_bytes = 0;
    int unit = 0;
    check_mpi(MPI_Win_shared_query(window, 0, &num_bytes, &unit, &base), "MPI_Win_shared_query");
    std::byte* next = static_cast<std::byte*>(base);
    next += (window_alignment - reinterpret_cast<std::uintptr_t>(base) % window_alignment) %
            window_alignment;
    for (const std::int64_t size : sizes) {
      blocks.emplace_back(next, static_cast<std::size_t>(size));
      next += padded_window_bytes(size);
    }
    check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window), "MPI_Win_lock_all");
  }
  std::fill(blocks[self].begin(), blocks[self].end(), unwritten_byte);
  return std::make_unique<MpiWindow>(window, std::move(blocks), comm, limit);
}

}  // namespace zeroproof
