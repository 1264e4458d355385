#include "common/comm/shared_blocks.hpp"

#include <new>

#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/comm/window_layout.hpp"

namespace zeroproof {

namespace {

class SharedBlocksWindow final : public SharedWindow {
 public:
  SharedBlocksWindow(std::shared_ptr<SharedBlocks> blocks, Communicator& comm)
      : blocks_(std::move(blocks)), comm_(comm) {}

  Span<std::byte> of(int rank) const override { return blocks_->of(rank); }

  void fence() override {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    comm_.barrier();
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  std::shared_ptr<SharedBlocks> blocks_;
  Communicator& comm_;
};

}  // namespace

SharedBlocks::SharedBlocks(const std::vector<std::int64_t>& sizes) {
  std::size_t total = 0;
  for (const std::int64_t size : sizes) total += padded_window_bytes(size);
  // No machine has this much, and instrumented allocators end the program where others throw.
  constexpr std::size_t too_much = std::size_t{1} << 46;
  try {
    if (total > too_much) throw std::bad_alloc();
    static_assert(unwritten_byte == std::byte{0xFF}, "as a poisoned buffer");
    memory_ = GuardedBuffer(static_cast<std::int64_t>(total), DType::e4m3);  // one byte each
  } catch (const std::exception&) {
    fail(ErrorCode::unavailable,
         "a window of " + std::to_string(total) + " bytes did not fit into memory",
         "all ranks share it", "use a smaller window or fewer ranks per machine");
  }
  Span<std::byte> rest(static_cast<std::byte*>(memory_.data()), total);  // aligned as blocks are
  for (const std::int64_t size : sizes) {
    blocks_.push_back(rest.subspan(0, size));
    rest = rest.subspan(padded_window_bytes(size));
  }
}

Span<std::byte> SharedBlocks::of(int rank) const { return blocks_.at(rank); }

std::unique_ptr<SharedWindow> make_window_over(std::shared_ptr<SharedBlocks> blocks,
                                               Communicator& comm) {
  return std::make_unique<SharedBlocksWindow>(std::move(blocks), comm);
}

}  // namespace zeroproof
