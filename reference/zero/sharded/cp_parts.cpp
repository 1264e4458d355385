#include "reference/zero/sharded/cp_parts.hpp"

#include <utility>

#include "reference/buffers.hpp"
#include "reference/operations.hpp"
#include "reference/zero/sharded/messages.hpp"

namespace zeroproof::reference {

std::optional<std::vector<float>> whole_leaf(const OptimizerSetup& setup, const FlatRange& unit,
                                             const std::vector<float>* part) {
  if (setup.cp == 1) return part == nullptr ? std::nullopt : std::optional(*part);

  // Ranks that share a micro-batch are consecutive; all of them have it or none does.
  const int first = setup.comm->rank() / setup.cp * setup.cp;
  const auto shares = [&](int rank) {
    return part != nullptr && rank >= first && rank < first + setup.cp;
  };
  Message mine;
  if (part != nullptr) mine = pack({array_view(*part), {unit}}, {unit});
  std::vector<Message> send;
  std::vector<std::int64_t> recv_bytes;
  for (int rank = 0; rank < setup.comm->world_size(); ++rank) {
    send.push_back(shares(rank) ? mine : Message());
    recv_bytes.push_back(static_cast<std::int64_t>(send.back().size()));
  }
  const std::vector<Message> recv = exchange(*setup.comm, std::move(send), recv_bytes);
  if (part == nullptr) return std::nullopt;

  std::vector<std::vector<float>> parts;
  for (int rank = first; rank < first + setup.cp; ++rank) {
    Span<const std::byte> bytes = recv[rank];
    parts.push_back(take_floats(bytes, unit.numel()));
  }
  std::vector<float> leaf = nan_buffer(unit.numel());
  for (const Piece& piece : setup.layout->pieces({unit})) {
    std::vector<Span<const float>> views;
    for (const std::vector<float>& values : parts) views.push_back(at(values, piece));
    grad_sum({}, views, at(leaf, piece));
  }
  return leaf;
}

}  // namespace zeroproof::reference
