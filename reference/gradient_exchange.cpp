#include "reference/gradient_exchange.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "reference/buffers.hpp"
#include "reference/grad_sum.hpp"
#include "reference/gradient_stack.hpp"
#include "reference/micro_batches.hpp"

namespace zeroproof::reference {
namespace {

using Message = std::vector<std::byte>;

/// Sends send[d] to rank d; rank s sends recv_bytes[s] bytes.
std::vector<Message> exchange(Communicator& comm, const std::vector<Message>& send,
                              const std::vector<std::int64_t>& recv_bytes) {
  std::vector<Message> recv;
  for (const std::int64_t bytes : recv_bytes) recv.emplace_back(static_cast<std::size_t>(bytes));
  const std::vector<Span<const std::byte>> send_views(send.begin(), send.end());
  const std::vector<Span<std::byte>> recv_views(recv.begin(), recv.end());
  comm.all_to_all(send_views, recv_views);
  return recv;
}

TensorView leaf_of(const OptimizerSetup& setup, LeafSource& leaves, std::int64_t micro_batch) {
  const TensorView leaf = leaves.leaf(micro_batch);
  ZP_CHECK(leaf.dtype == setup.leaf_dtype && leaf.numel == setup.layout->padded_numel(),
           ErrorCode::invalid_argument,
           "the leaf of micro-batch " + std::to_string(micro_batch) + " has " + std::to_string(leaf.numel) +
               " elements of " + std::string(name(leaf.dtype)),
           "the setup promises " + std::to_string(setup.layout->padded_numel()) + " of " +
               std::string(name(setup.leaf_dtype)),
           "make leaf source and setup agree");
  return leaf;
}

/// The sender's nodes follow from its micro-batches alone, so messages carry values and nothing else.
std::vector<TreeNode> nodes_of(const OptimizerSetup& setup, int rank) {
  const auto [first, last] = contiguous(setup, rank);
  return maximal_nodes(first, last);
}

/// The stack of what this rank owns: empty, on its shard.
GradientStack owner_stack(const OptimizerSetup& setup) {
  const int rank = setup.comm->rank();
  return GradientStack(setup.shards->shard_numel(rank), setup.layout->pieces(setup.shards->shard(rank)));
}

/// Values of the stack's nodes in one owner's shard, in increasing first micro-batch.
Message message_to(const OptimizerSetup& setup, const GradientStack& stack, int owner) {
  Message message;
  for (const GradientStack::Entry& entry : stack.entries()) {
    float* const values = const_cast<float*>(entry.values.data());  // a view has no const; pack only reads
    const TensorView full{values, DType::fp32, setup.layout->padded_numel()};
    const Message node = pack(full, setup.shards->shard(owner));
    message.insert(message.end(), node.begin(), node.end());
  }
  return message;
}

}  // namespace

std::vector<float> reduce_contiguous(const OptimizerSetup& setup, LeafSource& leaves) {
  const int world_size = setup.comm->world_size();
  const int rank = setup.comm->rank();
  const std::int64_t padded_numel = setup.layout->padded_numel();
  const std::vector<Piece> all_pieces = setup.layout->pieces({{0, padded_numel}});

  GradientStack mine(padded_numel, all_pieces);
  const auto [first, last] = contiguous(setup, rank);
  for (std::int64_t j = first; j < last; ++j) {
    mine.push({0, j}, widen_leaf(leaf_of(setup, leaves, j), all_pieces));
  }

  const std::int64_t owned_numel = setup.shards->shard_numel(rank);
  const std::int64_t node_bytes = owned_numel * num_bytes(DType::fp32);
  std::vector<Message> send;
  std::vector<std::int64_t> recv_bytes;
  for (int other = 0; other < world_size; ++other) {
    send.push_back(message_to(setup, mine, other));
    recv_bytes.push_back(static_cast<std::int64_t>(nodes_of(setup, other).size()) * node_bytes);
  }
  const std::vector<Message> recv = exchange(*setup.comm, send, recv_bytes);

  // Contiguous blocks lie in rank order, so rank by rank is in increasing order of the first micro-batch.
  GradientStack owned = owner_stack(setup);
  for (int sender = 0; sender < world_size; ++sender) {
    Span<const std::byte> rest = recv[static_cast<std::size_t>(sender)];
    for (const TreeNode& node : nodes_of(setup, sender)) {
      std::vector<float> values = nan_buffer(owned_numel);
      const Span<std::byte> bytes = std::as_writable_bytes(Span<float>(values));
      std::ranges::copy(rest.first(bytes.size()), bytes.begin());
      rest = rest.subspan(bytes.size());
      owned.push(node, std::move(values));
    }
  }
  return owned.fold();
}

std::vector<float> reduce_strided(const OptimizerSetup& setup, LeafSource& leaves) {
  const int world_size = setup.comm->world_size();
  const int rank = setup.comm->rank();
  const std::int64_t owned_numel = setup.shards->shard_numel(rank);
  const std::vector<Piece> owned_pieces = setup.layout->pieces(setup.shards->shard(rank));

  GradientStack owned = owner_stack(setup);
  for (std::int64_t begin = 0; begin < setup.micro_batches; begin += world_size) {  // one micro-step
    const auto has_leaf = [&](int holder) { return begin + holder < setup.micro_batches; };

    // A rank without a leaf takes part with empty messages: zeros would turn -0 into +0 (R11).
    std::vector<Message> send(static_cast<std::size_t>(world_size));
    if (has_leaf(rank)) {
      const TensorView leaf = leaf_of(setup, leaves, begin + rank);
      for (int owner = 0; owner < world_size; ++owner) {
        send[static_cast<std::size_t>(owner)] = pack(leaf, setup.shards->shard(owner));
      }
    }
    const std::int64_t leaf_bytes = owned_numel * num_bytes(setup.leaf_dtype);  // 16 bits travel as 16 bits
    std::vector<std::int64_t> recv_bytes;
    for (int holder = 0; holder < world_size; ++holder) {
      recv_bytes.push_back(has_leaf(holder) ? leaf_bytes : 0);
    }
    std::vector<Message> recv = exchange(*setup.comm, send, recv_bytes);

    // Holders in rank order hold consecutive micro-batches of this micro-step.
    for (int holder = 0; holder < world_size && has_leaf(holder); ++holder) {
      const TensorView leaf{recv[static_cast<std::size_t>(holder)].data(), setup.leaf_dtype, owned_numel};
      owned.push({0, begin + holder}, widen_leaf(leaf, owned_pieces));
    }
  }
  return owned.fold();
}

void gather_shards(const OptimizerSetup& setup, const TensorView& shard, const TensorView& full) {
  std::vector<Message> recv;
  for (int owner = 0; owner < setup.comm->world_size(); ++owner) {
    const std::int64_t bytes = setup.shards->shard_numel(owner) * num_bytes(shard.dtype);
    recv.emplace_back(static_cast<std::size_t>(bytes));
  }
  const std::vector<Span<std::byte>> recv_views(recv.begin(), recv.end());
  const Span<const std::byte> mine(static_cast<const std::byte*>(shard.data),
                                   static_cast<std::size_t>(shard.num_bytes()));
  setup.comm->all_gather(mine, recv_views);
  for (int owner = 0; owner < setup.comm->world_size(); ++owner) {
    unpack(recv[static_cast<std::size_t>(owner)], setup.shards->shard(owner), full);
  }
}

}  // namespace zeroproof::reference
