#include "cuda/reduce/grad_window.hpp"

#include "common/base/error.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<SharedBuffers::Shapes> shapes_of(const OptimizerSetup& setup,
                                             const MicroBatchIndex& numbers,
                                             const SharedMemoryGroup& near, std::int64_t numel) {
  std::vector<SharedBuffers::Shapes> shapes;
  for (const int rank : near.machines()[near.own_machine()]) {
    const bool computes = numbers.leaf_of(rank, 0) >= 0;
    shapes.push_back({{computes ? numel : 0, shared_leaf_dtype(setup)}});
  }
  return shapes;
}

}  // namespace

DType shared_leaf_dtype(const OptimizerSetup& setup) {
  return tp_ranks(setup) > 1 ? DType::fp32 : setup.grad_dtype;
}

GradWindow::GradWindow(const ReduceTools& tools, const MicroBatchIndex& numbers,
                       const SharedMemoryGroup& near, std::int64_t numel)
    : tools_(tools),
      shared_memory_group_(near),
      numel_(numel),
      buffers_(near.group(), shapes_of(tools.setup, numbers, near, numel)),
      mine_(buffers_.mine(0, tools.memory.ledger(), MemoryClass::grad_nodes)) {}

void GradWindow::put(const host::PieceLoop& loop, const NodeValues& leaf) {
  tools_.put_leaf(loop, leaf, place(mine_->view(), leaf.base()));
}

/// A window of whole gradients stores every bucket at its offset, a smaller one only the current
/// bucket.
NodeValues GradWindow::place(const TensorView& view, std::int64_t begin) const {
  return NodeValues::flat(view, numel_ == tools_.setup.layout->padded_numel() ? 0 : begin);
}

void GradWindow::end() {
  ZP_CHECK(mine_->guards_intact(), ErrorCode::internal,
           "the red zone of a shared gradient was overwritten", "a kernel wrote outside its range",
           "report this with the command line");
  if (tools_.memory.guarded()) mine_->poison();
}

}  // namespace zeroproof::cuda
