#include "verification/ops/op_call.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/digest.hpp"
#include "reference/operations.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {
namespace {

/// Poisoned elements after every buffer, so that a vector store past the end is detected.
constexpr std::int64_t behind = 17;

bool all_poison(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) {
    if (from[i] != std::byte{0xFF}) return false;
  }
  return true;
}

}  // namespace

OpCall::OpCall(const Op& op, const CallShape& shape) : op_(&op), shape_(shape) {
  exec.num_threads = shape.num_threads;
  allocate();
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Operand& operand = op.operands[k];
    if (operand.access != Access::out && operand.content != Content::given) fill_operand(k);
  }
  if (op.generate) op.generate(*this);
}

void OpCall::allocate() {
  // Settings of operations without extents may read the operands, which do not exist yet.
  const bool shaped = std::ranges::any_of(
      op_->operands, [](const Operand& operand) { return !operand.extents.empty(); });
  const std::vector<OpSetting> settings = shaped ? op_->settings(*this) : std::vector<OpSetting>{};
  for (std::size_t k = 0; k < op_->operands.size(); ++k) {
    const Operand& operand = op_->operands[k];
    Buffer buffer;
    buffer.numel = 1;
    for (const std::int64_t extent : shape_of(operand, shape_.numel, settings))
      buffer.numel *= extent;
    buffer.begin = shape_.offset == 2 ? static_cast<std::int64_t>((2 * k + 1) % 5) : shape_.offset;
    buffer.memory = GuardedBuffer(buffer.begin + buffer.numel + behind, operand.dtype);
    buffers_.push_back(std::move(buffer));
  }
}

OpCall OpCall::fresh() const { return fresh(shape_.variant); }

OpCall OpCall::fresh(int variant) const {
  OpCall copy;
  copy.op_ = op_;
  copy.shape_ = shape_;
  copy.shape_.variant = variant;
  copy.exec = exec;
  copy.allocate();
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    if (op_->operands[k].access == Access::out) continue;
    const TensorView from = view(k);
    if (from.numel > 0)
      std::memcpy(copy.view(k).data, from.data, static_cast<std::size_t>(from.num_bytes()));
  }
  return copy;
}

PhiloxBlock OpCall::words(std::size_t operand, std::int64_t index, std::uint32_t block) const {
  const std::uint64_t global = shape_.first_index + static_cast<std::uint64_t>(index);
  const std::uint32_t stream = 0x4F500000U + 256U * static_cast<std::uint32_t>(shape_.fill) +
                               static_cast<std::uint32_t>(operand);
  return philox4x32(
      {static_cast<std::uint32_t>(global), static_cast<std::uint32_t>(global >> 32), block, stream},
      shape_.seed);
}

OpCall OpCall::copy() const {
  OpCall all = fresh();
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    const TensorView from = view(k);
    if (op_->operands[k].access == Access::out && from.numel > 0)
      std::memcpy(all.view(k).data, from.data, static_cast<std::size_t>(from.num_bytes()));
  }
  return all;
}

TensorView OpCall::view(std::size_t operand) const {
  const Buffer& buffer = buffers_[operand];
  const DType dtype = buffer.memory.dtype();
  return {static_cast<std::byte*>(buffer.memory.data()) + buffer.begin * num_bytes(dtype), dtype,
          buffer.numel};
}

void OpCall::fill_operand(std::size_t k) {
  const Operand& operand = op_->operands[k];
  const TensorView target = view(k);
  for (std::int64_t i = 0; i < target.numel; ++i) {
    const PhiloxBlock w = words(k, i);
    const std::uint64_t global = shape_.first_index + static_cast<std::uint64_t>(i);
    auto* to = static_cast<std::byte*>(target.data) + i * num_bytes(operand.dtype);
    if (operand.dtype == DType::fp32 || operand.cast) {
      const float value = fill_value(shape_.fill, operand.content, global, w);
      if (operand.cast)
        reference::cast_to_bf16({}, Span<const float>(&value, 1), get<bf16>(k).subspan(i, 1));
      else
        std::memcpy(to, &value, sizeof(value));
    } else {  // a narrow format or an integer: patterns in turn; an odd factor reaches all of them
      const std::uint64_t bits =
          shape_.fill == Fill::zero ? 0 : global * 0x9E3779B97F4A7C15U + operand.name.size();
      std::memcpy(to, &bits, static_cast<std::size_t>(num_bytes(operand.dtype)));
    }
  }
}

std::string OpCall::damage(const OpCall& pristine) const {
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    const Buffer& buffer = buffers_[k];
    const Operand& operand = op_->operands[k];
    const std::int64_t width = num_bytes(operand.dtype);
    const auto* start = static_cast<const std::byte*>(buffer.memory.data());
    if (!buffer.memory.guards_intact() || !all_poison(start, buffer.begin * width) ||
        !all_poison(start + (buffer.begin + buffer.numel) * width, behind * width)) {
      return operand.name + " was written outside its bounds";
    }
    if (operand.access != Access::in) continue;
    const TensorView now = view(k);
    const TensorView before = pristine.view(k);
    if (raw_digest(now.data, now.num_bytes()) != raw_digest(before.data, before.num_bytes())) {
      return "the input " + operand.name + " was edited";
    }
  }
  return {};
}

}  // namespace zeroproof::verification
