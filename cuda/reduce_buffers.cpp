#include "cuda/reduce_buffers.hpp"

#include <algorithm>
#include <array>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

void ReduceTools::widen(const Exec& exec, const NodeValues& values, const Piece& piece,
                        Span<float> target) const {
  if (values.view().dtype == DType::bf16) {
    ops.widen_bf16(exec, values.part<const bf16>(piece), target);
  } else if (values.view().dtype == DType::fp16) {
    ops.widen_fp16(exec, values.part<const fp16>(piece), target);
  } else {
    const Span<const float> from = values.part<const float>(piece);
    std::copy(from.begin(), from.end(), target.begin());
  }
}

void ReduceTools::add(const host::PieceLoop& loop, const NodeValues& below, const NodeValues& top) const {
  loop.run(setup.exec, [&](const Exec& exec, const Piece& piece) {
    const Span<float> left = below.part<float>(piece);
    if (top.view().dtype == DType::fp32) return ops.add_nodes(exec, left, top.part<const float>(piece), left);
    std::array<float, host::block_numel> wide;  // stays in the cache
    const Span<float> right(wide.data(), left.size());
    widen(exec, top, piece, right);
    ops.add_nodes(exec, left, right, left);
  });
}

void ReduceTools::copy(const host::PieceLoop& loop, const NodeValues& from, const NodeValues& to) const {
  loop.run(setup.exec,
           [&](const Exec& exec, const Piece& piece) { widen(exec, from, piece, to.part<float>(piece)); });
}

void ReduceTools::require_intact(const NodeValues& values) {
  ZP_CHECK(values.guards_intact(), ErrorCode::internal, "the red zone of a gradient buffer was overwritten",
           "a kernel wrote outside its range", "report this with the command line");
}

CountedBuffer ReduceTools::node_buffer(std::int64_t numel) {
  const auto fits =
      std::ranges::find_if(spare, [&](const CountedBuffer& buffer) { return buffer->numel() == numel; });
  if (fits == spare.end()) return CountedBuffer(ledger, MemoryClass::grad_nodes, numel, DType::fp32);
  CountedBuffer buffer = std::move(*fits);
  spare.erase(fits);
  return buffer;
}

TreeStack ReduceTools::make_stack(const host::PieceLoop& loop) {
  return TreeStack([this, &loop](NodeValues& below, NodeValues& top) {
    add(loop, below, top);
    require_intact(top);
    if (!keeps_spare || !top.owns_memory()) return;
    spare.push_back(top.release());
    spare.back()->poison();
  });
}

}  // namespace zeroproof::cuda
