#include "cuda/comm/exchange/shared_buffers.hpp"

#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::cuda {
namespace {

std::int64_t footprint(const SharedBuffers::Shapes& shapes) {
  std::int64_t bytes = 0;
  for (const SharedBuffers::Shape& shape : shapes)
    bytes += GuardedBuffer::footprint(shape.numel, shape.dtype);
  return bytes;
}

}  // namespace

SharedBuffers::SharedBuffers(Communicator* group, std::vector<Shapes> shapes)
    : rank_(group == nullptr ? 0 : group->rank()), shapes_(std::move(shapes)) {
  const std::int64_t bytes = footprint(shapes_[rank_]);
  if (group == nullptr) {
    alone_ = GuardedBuffer(bytes, DType::e4m3);  // one byte each
    return;
  }
  window_ = group->shared_window(bytes);
  ZP_CHECK(window_ != nullptr, ErrorCode::unavailable, "no shared memory for " + group->name(),
           "windows store gradients and shards in it", "use windows off");
}

std::byte* SharedBuffers::memory(int rank, std::size_t i) const {
  const Shapes& shapes = shapes_[rank];
  std::byte* const begin =
      window_ ? window_->of(rank).data() : static_cast<std::byte*>(alone_.data());
  return begin + footprint({shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(i)});
}

CountedBuffer SharedBuffers::mine(std::size_t i, MemoryLedger& ledger, MemoryClass kind) const {
  const Shape& shape = shapes_[rank_][i];
  return {ledger, kind,
          GuardedBuffer(memory(rank_, i), shape.numel, shape.dtype, BufferFill::untouched),
          BufferFill::untouched};
}

TensorView SharedBuffers::of(int rank, std::size_t i) const {
  const Shape& shape = shapes_[rank][i];
  return {memory(rank, i) + GuardedBuffer::guard_bytes, shape.dtype, shape.numel};
}

}  // namespace zeroproof::cuda
