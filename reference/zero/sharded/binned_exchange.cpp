#include "reference/zero/sharded/binned_exchange.hpp"

#include <algorithm>
#include <utility>

#include "reference/blocks.hpp"
#include "reference/buffers.hpp"
#include "reference/gradients/binned_buffer.hpp"
#include "reference/operations.hpp"
#include "reference/zero/sharded/cp_parts.hpp"
#include "reference/zero/sharded/messages.hpp"
#include "reference/zero/sharded/micro_batches.hpp"
#include "reference/zero/sharded/ranks.hpp"

namespace zeroproof::reference {
namespace {

constexpr std::int64_t bytes_per_element = 9;  // hi, lo, top

template <class T>
void append(Message& message, const std::vector<T>& field, const FlatRanges& ranges) {
  for (const FlatRange& range : ranges) {
    append(message, std::as_bytes(part(Span<const T>(field), range.begin, range.numel())));
  }
}

/// The three fields over some ranges, one field after another.
Message packed(const BinnedBuffer& sum, const FlatRanges& ranges) {
  Message message;
  append(message, sum.hi, ranges);
  append(message, sum.lo, ranges);
  append(message, sum.top, ranges);
  return message;
}

template <class T>
void take(Span<const std::byte>& rest, std::vector<T>& field) {
  const Span<std::byte> bytes = std::as_writable_bytes(Span<T>(field));
  std::ranges::copy(rest.first(bytes.size()), bytes.begin());
  rest = rest.subspan(bytes.size());
}

/// The sum of gradients of another rank or instance, [numel].
BinnedBuffer merged(const std::vector<Message>& messages, std::int64_t numel) {
  BinnedBuffer all(numel);
  for (const Message& message : messages) {
    BinnedBuffer one(numel);
    Span<const std::byte> rest = message;
    take(rest, one.hi);
    take(rest, one.lo);
    take(rest, one.top);
    binned_merge({}, one.view(), all.view());
  }
  return all;
}

/// The sum of this rank's gradients, [padded_numel]. Among ranks that share a micro-batch, only CP
/// rank 0 adds its gradient.
BinnedBuffer own_sum(const OptimizerSetup& setup, MicroBatchPass& pass) {
  const int rank = data_rank(setup, setup.comm->rank());
  BinnedBuffer mine(setup.layout->padded_numel());
  for (std::int64_t micro_step = 0; micro_step < num_micro_steps(setup); ++micro_step) {
    pass.run(micro_batch_at(setup, rank, micro_step),
             [&](std::size_t unit, const std::vector<float>* part) {
               const FlatRange& range = pass.units()[unit];
               const std::optional<std::vector<float>> leaf = whole_leaf(setup, range, part);
               if (leaf && rank % setup.cp == 0)
                 mine.deposit(*leaf, range.begin, setup.layout->pieces({range}));
             });
  }
  return mine;
}

}  // namespace

std::vector<float> reduce_binned(const OptimizerSetup& setup, MicroBatchPass& pass) {
  const BinnedBuffer mine = own_sum(setup, pass);
  const FlatRanges shard = setup.shards->shard(setup.comm->rank());
  const std::int64_t owned_numel = numel_of(shard);
  const auto same_from = [&](const Communicator* group) {
    return std::vector<std::int64_t>(size_of(group), owned_numel * bytes_per_element);
  };

  std::vector<Message> send;
  for (int owner = 0; owner < setup.comm->world_size(); ++owner) {
    send.push_back(packed(mine, setup.shards->shard(owner)));
  }
  BinnedBuffer owned =
      merged(exchange(*setup.comm, std::move(send), same_from(setup.comm)), owned_numel);
  if (size_of(setup.replicas) > 1) {
    const Message message = packed(owned, {{0, owned_numel}});
    owned = merged(gather_all(*setup.replicas, message, same_from(setup.replicas)), owned_numel);
  }
  return owned.finish(setup.layout->pieces(shard));
}

}  // namespace zeroproof::reference
