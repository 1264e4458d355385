#include "cuda/zero/reduce_buffers.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

void ReduceTools::widen(const Exec& exec, const NodeValues& values, const Piece& piece,
                        Span<float> target) const {
  visit_param_format(values.view().dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    ops.widen(exec, values.part<const T>(piece), target);
  });
}

void ReduceTools::fold(const Exec& exec, Span<const NodeValues> parts, const Piece& block,
                       Span<float> sum) const {
  if (parts.size() == 1) return widen(exec, parts.front(), block, sum);
  const std::size_t left =
      std::bit_ceil(parts.size()) / 2;  // the largest aligned block that leaves something over
  fold(exec, parts.first(left), block, sum);
  std::array<float, host::block_numel> right;  // stays in the cache
  const Span<float> rest(right.data(), sum.size());
  fold(exec, parts.subspan(left), block, rest);
  ops.add_nodes(exec, sum, rest, sum);
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
