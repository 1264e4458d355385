#include "verification/interfaces/python/src/extension/call_memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace zeroproof::python {
namespace {

using verification::Access;
using verification::Op;

constexpr std::uintptr_t line = 64;  // GuardedBuffer begins its payload there

void copy(const TensorView& from, const TensorView& to) {
  if (from.numel > 0) std::memcpy(to.data, from.data, static_cast<std::size_t>(from.num_bytes()));
}

}  // namespace

CallMemory::CallMemory(const Op& op, const std::vector<std::vector<std::int64_t>>& shapes,
                       const std::vector<TensorView>& operands, std::string text, bool in_place)
    : op_(&op), shapes_(shapes), in_place_(in_place), text_(std::move(text)) {
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const TensorView from = operands[k];
    Buffer buffer;
    buffer.numel = from.numel;
    buffer.begin = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from.data) % line) /
                   num_bytes(from.dtype);
    buffer.memory = GuardedBuffer(buffer.begin + buffer.numel, from.dtype);
    buffers_.push_back(std::move(buffer));
    const bool both =
        in_place_ && k == 1;  // the shared buffer holds the input first, and then the output
    if (both || op.operands[k].access != Access::out) copy(both ? operands[0] : from, view(k));
  }
}

TensorView CallMemory::view(std::size_t operand) const {
  const Buffer& buffer = buffers_[aliased(operand) ? 1 : operand];
  const DType dtype = buffer.memory.dtype();
  return {static_cast<std::byte*>(buffer.memory.data()) + buffer.begin * num_bytes(dtype), dtype,
          buffer.numel};
}

std::string CallMemory::edited(const std::vector<TensorView>& operands) const {
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    const TensorView want = operands[k];
    if (op_->operands[k].access != Access::in || aliased(k) || want.numel == 0) continue;
    if (std::memcmp(view(k).data, want.data, static_cast<std::size_t>(want.num_bytes())) != 0)
      return op_->operands[k].name;
  }
  return {};
}

void CallMemory::copy_back(const std::vector<TensorView>& operands) const {
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    if (op_->operands[k].access != Access::in) copy(view(k), operands[k]);
  }
}

std::string CallMemory::damaged() const {
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    const Buffer& buffer = buffers_[k];
    const auto* start = static_cast<const std::byte*>(buffer.memory.data());
    const std::int64_t before = buffer.begin * num_bytes(buffer.memory.dtype());
    const bool poison =
        std::all_of(start, start + before, [](std::byte one) { return one == std::byte{0xFF}; });
    if (!poison || !buffer.memory.guards_intact()) return op_->operands[k].name;
  }
  return {};
}

void CallMemory::seal() {
  sealed_.clear();
  for (std::size_t k = 0; k < buffers_.size(); ++k)
    sealed_.push_back(raw_digest(view(k).data, view(k).num_bytes()));
}

std::string CallMemory::written_since() const {
  for (std::size_t k = 0; k < sealed_.size(); ++k) {
    if (raw_digest(view(k).data, view(k).num_bytes()) != sealed_[k]) return op_->operands[k].name;
  }
  return {};
}

}  // namespace zeroproof::python
