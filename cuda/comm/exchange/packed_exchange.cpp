#include "cuda/comm/exchange/packed_exchange.hpp"

#include <algorithm>

namespace zeroproof::cuda {
namespace {

std::int64_t bytes_of(const Stretches& stretches) {
  std::int64_t bytes = 0;
  for (const Span<std::byte> stretch : stretches) bytes += numel(stretch);
  return bytes;
}

bool is_scattered(const Stretches& stretches) { return stretches.size() > 1; }

/// Bytes of all scattered parts: the size of a message buffer.
std::int64_t scattered_bytes(const std::vector<Stretches>& parts) {
  std::int64_t bytes = 0;
  for (const Stretches& part : parts) bytes += is_scattered(part) ? next_part(bytes_of(part)) : 0;
  return bytes;
}

void pack(const Stretches& from, std::byte* packed, std::vector<Move>& moves) {
  for (const Span<std::byte> stretch : from) {
    moves.push_back({packed, stretch.data(), numel(stretch)});
    packed += stretch.size();
  }
}

}  // namespace

void unpack(const std::byte* packed, const Stretches& to, std::vector<Move>& moves) {
  for (const Span<std::byte> stretch : to) {
    moves.push_back({stretch.data(), packed, numel(stretch)});
    packed += stretch.size();
  }
}

namespace {

/// Every part as one contiguous range: itself, or for a scattered part its share of the message
/// buffer.
std::vector<Span<std::byte>> in_one(const std::vector<Stretches>& parts, std::byte* buffer) {
  std::vector<Span<std::byte>> all;
  for (const Stretches& part : parts) {
    if (is_scattered(part)) {
      all.push_back({buffer, static_cast<std::size_t>(bytes_of(part))});
      buffer += next_part(bytes_of(part));
    } else {
      all.push_back(part.empty() ? Span<std::byte>() : part.front());
    }
  }
  return all;
}

}  // namespace

void append(Stretches& stretches, const RankPart& part, void* buffer, std::int64_t base,
            std::int64_t width) {
  for (const FlatRange& range : part.ranges) {
    stretches.push_back({static_cast<std::byte*>(buffer) + (range.begin - base) * width,
                         static_cast<std::size_t>(range.numel() * width)});
  }
}

std::vector<Span<std::byte>> exchange_packed(Communicator& comm, const std::vector<Stretches>& send,
                                             const std::vector<std::int64_t>& recv_bytes,
                                             GrowingBuffer& out, GrowingBuffer& in) {
  std::int64_t arriving = 0;
  for (const std::int64_t bytes : recv_bytes) arriving += next_part(bytes);
  const std::vector<Span<std::byte>> leaving = in_one(send, out.take(scattered_bytes(send)));
  std::byte* at = in.take(arriving);
  std::vector<Span<std::byte>> arrived;
  std::vector<Move> moves;
  for (std::size_t rank = 0; rank < send.size(); ++rank) {
    if (is_scattered(send[rank])) pack(send[rank], leaving[rank].data(), moves);
    arrived.push_back({at, static_cast<std::size_t>(recv_bytes[rank])});
    at += next_part(recv_bytes[rank]);
  }
  out.space().copy_many(moves);
  const std::vector<Span<const std::byte>> sent(leaving.begin(), leaving.end());
  if (comm.world_size() > 1) comm.all_to_all(sent, arrived);
  return arrived;
}

void gather_packed(Communicator& comm, const Stretches& mine, const std::vector<Stretches>& places,
                   GrowingBuffer& in) {
  const std::vector<Span<std::byte>> receive = in_one(places, in.take(scattered_bytes(places)));
  Span<std::byte> own = receive[comm.rank()];
  if (is_scattered(mine)) {
    std::vector<Move> moves;
    pack(mine, own.data(), moves);
    in.space().copy_many(moves);
  } else {
    own = mine.empty() ? Span<std::byte>() : mine.front();
  }
  comm.all_gather(own, receive);
  std::vector<Move> moves;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (is_scattered(places[rank])) unpack(receive[rank].data(), places[rank], moves);
  }
  in.space().copy_many(moves);
}

}  // namespace zeroproof::cuda
