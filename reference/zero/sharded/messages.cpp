#include "reference/zero/sharded/messages.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"

namespace zeroproof::reference {
namespace {

std::vector<Message> messages_of(const std::vector<std::int64_t>& bytes) {
  std::vector<Message> messages;
  for (const std::int64_t size : bytes) messages.emplace_back(static_cast<std::size_t>(size));
  return messages;
}

}  // namespace

std::vector<Message> exchange(Communicator& comm, std::vector<Message> send,
                              const std::vector<std::int64_t>& recv_bytes) {
  const auto self = static_cast<std::size_t>(comm.rank());
  Message own = std::move(send[self]);  // not sent
  ZP_CHECK(static_cast<std::int64_t>(own.size()) == recv_bytes[self], ErrorCode::internal,
           "a rank has " + std::to_string(own.size()) + " bytes for itself and expects " +
               std::to_string(recv_bytes[self]),
           "its own part would be read past its end", "report this as a defect");
  send[self] = {};
  std::vector<std::int64_t> bytes_from_others = recv_bytes;
  bytes_from_others[self] = 0;
  std::vector<Message> recv = messages_of(bytes_from_others);
  const std::vector<Span<const std::byte>> send_views(send.begin(), send.end());
  const std::vector<Span<std::byte>> recv_views(recv.begin(), recv.end());
  comm.all_to_all(send_views, recv_views);
  recv[self] = std::move(own);
  return recv;
}

std::vector<Message> gather_all(Communicator& group, const Message& mine,
                                const std::vector<std::int64_t>& recv_bytes) {
  std::vector<Message> recv = messages_of(recv_bytes);
  const std::vector<Span<std::byte>> recv_views(recv.begin(), recv.end());
  group.all_gather(mine, recv_views);
  return recv;
}

void gather_from_owners(const OptimizerSetup& setup, const RangedView& shard,
                        const FlatRanges& wanted, const RangedView& into) {
  const auto owned = [&](int rank) { return intersect(setup.shards->shard(rank), wanted); };
  std::vector<std::int64_t> recv_bytes;
  for (int owner = 0; owner < setup.comm->world_size(); ++owner) {
    recv_bytes.push_back(numel_of(owned(owner)) * num_bytes(shard.view.dtype));
  }
  const std::vector<Message> recv =
      gather_all(*setup.comm, pack(shard, owned(setup.comm->rank())), recv_bytes);
  for (int owner = 0; owner < setup.comm->world_size(); ++owner) {
    unpack(recv[owner], owned(owner), into);
  }
}

std::vector<float> take_floats(Span<const std::byte>& rest, std::int64_t numel) {
  std::vector<float> values;  // grows block by block, so that the block is in the cache
  values.reserve(numel);
  for_each_block(numel, [&](std::int64_t begin, std::int64_t count) {
    values.resize(begin + count);
    const Span<std::byte> block = std::as_writable_bytes(part(Span<float>(values), begin, count));
    std::ranges::copy(rest.first(block.size()), block.begin());
    rest = rest.subspan(block.size());
  });
  return values;
}

}  // namespace zeroproof::reference
