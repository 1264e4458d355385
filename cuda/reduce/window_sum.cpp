// The canonical tree (R11) where ranks of one machine read each other's gradients and nodes.

#include <cstddef>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/comm/exchange/shared_buffers.hpp"
#include "cuda/reduce/grad_window.hpp"
#include "cuda/reduce/leaf_sum.hpp"
#include "cuda/reduce/node_store.hpp"
#include "cuda/reduce/node_view.hpp"

namespace zeroproof::cuda {
namespace {

/// Operations of each rank of the machine on its nodes. Its last gradient is not added: the final
/// sum reads it anyway.
std::vector<ReductionSchedule> moves_of(const MicroBatchIndex& numbers,
                                        const std::vector<int>& ranks) {
  std::vector<ReductionSchedule> moves;
  for (const int rank : ranks)
    moves.push_back(
        ReductionSchedule::tree(numbers.steps_of(rank), ReductionSchedule::LastLeaves::stay));
  return moves;
}

/// First a rank's last leaf, then its slots.
std::vector<SharedBuffers::Shapes> shapes_of(const OptimizerSetup& setup,
                                             const std::vector<ReductionSchedule>& moves) {
  const std::int64_t numel = setup.layout->padded_numel();
  std::vector<SharedBuffers::Shapes> shapes;
  for (const ReductionSchedule& of_rank : moves) {
    SharedBuffers::Shapes& mine = shapes.emplace_back();
    mine.push_back({of_rank.left().empty() ? 0 : numel, shared_leaf_dtype(setup)});
    for (std::size_t slot = 0; slot < of_rank.slots(); ++slot) mine.push_back({numel, DType::fp32});
  }
  return shapes;
}

class WindowSum final : public LeafSum {
 public:
  WindowSum(const ReduceTools& tools, const MicroBatchIndex& numbers, const SharedMemoryGroup& near)
      : tools_(tools),
        numbers_(numbers),
        shared_memory_group_(near),
        moves_(moves_of(numbers, own_machine())),
        buffers_(near.group(), shapes_of(tools.setup, moves_)),
        last_leaf_(buffers_.mine(0, tools.memory.ledger(), MemoryClass::grad_nodes)),
        store_(tools, own_moves(), own_slots(), shared_leaf_dtype(tools.setup)) {
    for (const std::vector<int>& ranks : near.machines())
      nodes_.push_back(in_message(numbers.nodes_of(ranks)));
    for (std::size_t place = 0; place < moves_.size(); ++place) {
      for (const ReductionSchedule::Left& left : moves_[place].left()) {
        const std::size_t buffer = left.source.leaf ? 0 : 1 + left.source.index;
        TensorView values = buffers_.of(static_cast<int>(place), buffer);
        values.dtype = travel_dtype(tools.setup, left.node);
        near_nodes_.push_back({left.node, NodeValues::flat(values, 0)});
      }
    }
  }

  void begin() override {}

  void keep(const host::PieceLoop& loop, std::int64_t micro_step, const NodeValues& leaf) override {
    const bool last = numbers_.leaf_of(tools_.setup.comm->rank(), micro_step + 1) < 0;
    if (!last) return store_.apply_flat(loop, micro_step, {&leaf, 1});
    tools_.put_leaf(loop, leaf, NodeValues::flat(last_leaf_->view(), 0));
  }

  void receive(const BucketPlan&, std::int64_t, Span<const NodeValues>) override {
    fail(ErrorCode::internal, "gradients were sent to ranks that read them in place",
         "this sum receives no messages", "report this with the command line");
  }

  void publish() override { buffers_.fence(); }

  TensorView leaf_buffer() const override {
    if (last_leaf_->dtype() != tools_.setup.grad_dtype || last_leaf_->numel() == 0) return {};
    return last_leaf_->view();
  }

  void finish(const BucketPlan& plan, const NodeValues& grad_sum,
              const FoldEpilogue& epilogue) override {
    std::vector<NodeView> nodes = near_nodes_;
    if (!shared_memory_group_.all()) receive_far(plan, nodes);
    if (plan.own.numel > 0)
      add_to_sum(tools_, numbers_, plan, std::move(nodes), grad_sum, epilogue);
  }

  /// Barrier: a rank writes again only when no other rank reads.
  void end() override {
    buffers_.fence();
    store_.require_intact();
    ZP_CHECK(last_leaf_->guards_intact(), ErrorCode::internal,
             "the red zone of a shared gradient was overwritten",
             "a kernel wrote outside its range", "report this with the command line");
    store_.forget();
    if (tools_.memory.guarded()) last_leaf_->poison();
  }

 private:
  const std::vector<int>& own_machine() const {
    return shared_memory_group_.machines()[shared_memory_group_.own_machine()];
  }
  const ReductionSchedule& own_moves() const {
    return moves_[shared_memory_group_.place(tools_.setup.comm->rank())];
  }
  std::vector<CountedBuffer> own_slots() const {
    std::vector<CountedBuffer> slots;
    for (std::size_t slot = 0; slot < own_moves().slots(); ++slot) {
      slots.push_back(buffers_.mine(1 + slot, tools_.memory.ledger(), MemoryClass::grad_nodes));
    }
    return slots;
  }
  void receive_far(const BucketPlan& plan, std::vector<NodeView>& nodes);

  const ReduceTools& tools_;
  const MicroBatchIndex& numbers_;
  const SharedMemoryGroup& shared_memory_group_;
  const std::vector<ReductionSchedule> moves_;  // [ranks of this machine]
  SharedBuffers buffers_;
  CountedBuffer last_leaf_;
  NodeStore store_;
  std::vector<std::vector<TreeNode>>
      nodes_;                         // [machines] left when all their leaves have been pushed
  std::vector<NodeView> near_nodes_;  ///< of all ranks of this machine
};

/// Adds the nodes of other machines for this rank's part. Every machine combines its nodes for an
/// owner elsewhere once, on the rank at the owner's position modulo the number of local ranks, so
/// that all have about the same work.
void WindowSum::receive_far(const BucketPlan& plan, std::vector<NodeView>& nodes) {
  Communicator& comm = *tools_.comm_groups.comm;
  const auto world = static_cast<std::size_t>(comm.world_size());
  const std::size_t here = shared_memory_group_.own_machine();
  const int own_place = shared_memory_group_.place(comm.rank());
  const auto place_on = [&](std::size_t machine, int place) {
    return place % static_cast<int>(shared_memory_group_.machines()[machine].size());
  };
  std::vector<RankPart> parts(world);  // of those this rank combines for
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(world);
  std::int64_t leaving = 0, arriving = 0;
  for (std::size_t r = 0; r < world; ++r) {
    const int rank = static_cast<int>(r);
    if (shared_memory_group_.near(rank) ||
        place_on(here, shared_memory_group_.place(rank)) != own_place)
      continue;
    parts[r] = plan.part(rank);
    leaving += next_part(message_bytes(tools_.setup, nodes_[here], parts[r].numel));
  }
  for (std::size_t machine = 0; machine < nodes_.size(); ++machine) {
    if (machine != here)
      arriving += next_part(message_bytes(tools_.setup, nodes_[machine], plan.own.numel));
  }
  std::byte* out = tools_.memory.out.take(leaving);
  for (std::size_t r = 0; r < world; ++r) {
    if (parts[r].numel == 0) continue;
    std::vector<Piece> pieces;
    std::int64_t local = 0;
    for (const FlatRange& range : parts[r].ranges) {
      pieces.push_back({0, 0, range.begin, local, range.numel()});
      local += range.numel();
    }
    const host::PieceLoop loop(pieces);
    const std::int64_t bytes = message_bytes(tools_.setup, nodes_[here], parts[r].numel);
    pack_nodes(tools_, loop, parts[r].numel, nodes_[here], near_nodes_, out);
    send[r] = {out, static_cast<std::size_t>(bytes)};
    out += next_part(bytes);
  }
  std::byte* in = tools_.memory.in.take(arriving);
  for (std::size_t machine = 0; machine < nodes_.size(); ++machine) {
    if (machine == here || plan.own.numel == 0) continue;
    const int from = shared_memory_group_.machines()[machine][place_on(machine, own_place)];
    const std::int64_t bytes = message_bytes(tools_.setup, nodes_[machine], plan.own.numel);
    const std::vector<NodeView> sent = nodes_at(tools_.setup, nodes_[machine], plan.own.numel, in);
    nodes.insert(nodes.end(), sent.begin(), sent.end());
    receive[from] = {in, static_cast<std::size_t>(bytes)};
    in += next_part(bytes);
  }
  comm.all_to_all(send, receive);
}

}  // namespace

std::unique_ptr<LeafSum> make_window_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         const SharedMemoryGroup& near) {
  return std::make_unique<WindowSum>(tools, numbers, near);
}

}  // namespace zeroproof::cuda
