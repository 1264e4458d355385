#include "common/comm/mpi/mpi_message.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace zeroproof {

namespace {

constexpr std::uint64_t format = 0x7a70636f6d6d0002u;  // changes with the layout below
constexpr std::size_t max_text_bytes = 4096;

struct Header {
  std::uint64_t format_id;
  std::int64_t sequence;
  std::int64_t channel;
  std::int32_t kind;
  std::int32_t collective;
  std::int32_t reduce;
  std::int32_t root;
  std::int32_t code;
  std::int32_t world_size;
  std::uint64_t text_bytes;
};

std::size_t counts_bytes(int world_size) {
  return 2 * sizeof(std::int64_t) * static_cast<std::size_t>(world_size);
}

}  // namespace

std::size_t max_encoded_bytes(int world_size) {
  return sizeof(Header) + counts_bytes(world_size) + max_text_bytes;
}

std::vector<std::byte> encode(const MpiMessage& message, int world_size) {
  const CollectiveCall& call = message.call;
  Header header{};
  header.format_id = format;
  header.sequence = call.sequence;
  header.channel = message.channel;
  header.kind = static_cast<std::int32_t>(message.kind);
  header.collective = static_cast<std::int32_t>(call.collective);
  header.reduce = static_cast<std::int32_t>(call.reduce);
  header.root = call.root;
  header.code = static_cast<std::int32_t>(message.code);
  header.world_size = world_size;
  header.text_bytes = std::min(message.text.size(), max_text_bytes);
  std::vector<std::int64_t> counts = call.send_bytes;
  counts.insert(counts.end(), call.recv_bytes.begin(), call.recv_bytes.end());
  counts.resize(2 * static_cast<std::size_t>(world_size));  // only a call has counts
  std::vector<std::byte> data(sizeof(Header) + counts_bytes(world_size) + header.text_bytes);
  std::memcpy(data.data(), &header, sizeof(Header));
  std::memcpy(data.data() + sizeof(Header), counts.data(), counts_bytes(world_size));
  std::memcpy(data.data() + sizeof(Header) + counts_bytes(world_size), message.text.data(),
              header.text_bytes);
  return data;
}

MpiMessage decode(Span<const std::byte> data, int world_size) {
  Header header{};
  if (data.size() >= sizeof(Header)) std::memcpy(&header, data.data(), sizeof(Header));
  ZP_CHECK(header.format_id == format && header.world_size == world_size &&
               data.size() == sizeof(Header) + counts_bytes(world_size) + header.text_bytes,
           ErrorCode::comm, "another rank sent a message that cannot be read",
           "ranks may run different builds", "start the same build on every rank");
  MpiMessage message;
  message.kind = static_cast<MpiMessage::Kind>(header.kind);
  message.channel = header.channel;
  message.code = static_cast<ErrorCode>(header.code);
  message.call.collective = static_cast<Collective>(header.collective);
  message.call.reduce = static_cast<IntegerReduce>(header.reduce);
  message.call.root = header.root;
  message.call.sequence = header.sequence;
  const std::size_t ranks = static_cast<std::size_t>(world_size);
  std::vector<std::int64_t> counts(2 * ranks);
  std::memcpy(counts.data(), data.data() + sizeof(Header), counts_bytes(world_size));
  message.call.send_bytes.assign(counts.data(), counts.data() + ranks);
  message.call.recv_bytes.assign(counts.data() + ranks, counts.data() + 2 * ranks);
  const char* text =
      reinterpret_cast<const char*>(data.data()) + sizeof(Header) + counts_bytes(world_size);
  message.text.assign(text, header.text_bytes);
  return message;
}

}  // namespace zeroproof
