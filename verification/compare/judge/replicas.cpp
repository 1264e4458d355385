#include "verification/compare/judge/replicas.hpp"

#include <algorithm>
#include <map>

#include "common/base/digest.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {
namespace {

constexpr int everyone = -1;

/// Elements of one buffer held by several ranks, and the key of the set of ranks on which they must
/// be equal.
struct Held {
  BufferId buffer;
  std::int64_t tensor;  ///< -1 for scalars and whole shards
  int set;              ///< ranks with the same set must agree; `everyone`: all of them
  TensorView view;
  Piece piece;  ///< of the tensor, for its place in the model
};

bool is_whole(const ExposedBuffer& buffer, const FlatLayout& layout) {
  std::int64_t numel = 0;
  for (const FlatRange& range : buffer.ranges) numel += range.numel();
  return numel == layout.padded_numel();
}

TensorView part(const TensorView& view, std::int64_t begin, std::int64_t numel) {
  return {static_cast<std::byte*>(view.data) + begin * num_bytes(view.dtype), view.dtype, numel};
}

std::vector<Held> held_by(const CaseLayout& layout, int rank, DistributedOptimizer& optimizer) {
  const RankCoords place = layout.place(rank);
  const CaseLayout::Local& local = layout.local(place.tp_rank);
  std::vector<Held> held;
  for (const Phase phase : {Phase::prepare, Phase::unscale, Phase::norm, Phase::clip, Phase::update,
                            Phase::cast, Phase::gather}) {
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
      const bool gradient = buffer.id == BufferId::unscaled_grad || buffer.id == BufferId::grad;
      if (gradient) continue;  // scratch
      if (buffer.ranges.empty()) {
        held.push_back({buffer.id, -1, everyone, buffer.view, {}});
      } else if (is_whole(buffer, local.layout)) {
        for (const Piece& piece : local.layout.pieces(buffer.ranges)) {
          const bool replicated =
              local.placement.empty() || local.placement[piece.tensor].tp_replicated;
          held.push_back({buffer.id, piece.tensor, replicated ? everyone : place.tp_rank,
                          part(buffer.view, piece.local_begin, piece.numel), piece});
        }
      } else if (layout.instances() > 1) {
        for (const Piece& piece : local.layout.pieces(buffer.ranges)) {
          held.push_back(
              {buffer.id, piece.tensor,
               layout.grid().tp + place.tp_rank * layout.shard_ranks() + place.shard_rank,
               part(buffer.view, piece.local_begin, piece.numel), piece});
        }
      }
    }
  }
  return held;
}

/// The message of a rank about one Held: the key, then the digest.
struct Entry {
  std::uint64_t buffer, tensor, set, begin;
  Digest digest;

  auto key() const { return std::array{buffer, tensor, set, begin}; }
};

std::vector<std::vector<Entry>> publish(const std::vector<Held>& held, Communicator& world) {
  std::vector<Entry> mine;
  for (const Held& h : held) {
    Hasher hasher;
    hasher.add(h.view);
    mine.push_back({static_cast<std::uint64_t>(h.buffer), static_cast<std::uint64_t>(h.tensor + 1),
                    static_cast<std::uint64_t>(h.set + 1),
                    static_cast<std::uint64_t>(h.piece.tensor_begin), hasher.digest()});
  }
  const auto size = static_cast<std::size_t>(world.world_size());
  std::vector<std::uint64_t> counts(size, 0);
  counts[world.rank()] = mine.size();
  world.all_reduce(counts, IntegerReduce::max);
  std::vector<std::vector<Entry>> all(size);
  std::vector<Span<std::byte>> receive;
  for (std::size_t r = 0; r < size; ++r) {
    all[r].resize(counts[r]);
    receive.push_back(std::as_writable_bytes(Span<Entry>(all[r])));
  }
  world.all_gather(std::as_bytes(Span<const Entry>(mine)), receive);
  return all;
}

/// The rank that drifted first (in the order of rank 0), and the rank it should equal.
struct Odd {
  int rank;
  int right;
  std::array<std::uint64_t, 4> key;
};

std::optional<Odd> find_odd(const std::vector<std::vector<Entry>>& all) {
  std::map<std::array<std::uint64_t, 4>, std::vector<std::pair<int, Digest>>> sets;
  std::vector<std::array<std::uint64_t, 4>> order;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const Entry& entry : all[rank]) {
      auto& set = sets[entry.key()];
      if (set.empty()) order.push_back(entry.key());
      set.emplace_back(static_cast<int>(rank), entry.digest);
    }
  }
  for (const auto& key : order) {
    const auto& set = sets.at(key);
    std::pair<std::ptrdiff_t, int> best{0, 0};  // votes, and the lowest rank with this value
    Digest right;
    for (const auto& [rank, digest] : set) {
      const Digest& mine = digest;
      const auto votes = std::count_if(set.begin(), set.end(),
                                       [&](const auto& other) { return other.second == mine; });
      if (votes > best.first) {
        best = {votes, rank};
        right = digest;
      }
    }
    for (const auto& [rank, digest] : set) {
      if (digest != right) return Odd{rank, best.second, key};
    }
  }
  return std::nullopt;
}

const Held& find_held(const std::vector<Held>& held, const std::array<std::uint64_t, 4>& key) {
  return *std::find_if(held.begin(), held.end(), [&](const Held& h) {
    return static_cast<std::uint64_t>(h.buffer) == key[0] &&
           static_cast<std::uint64_t>(h.tensor + 1) == key[1] &&
           static_cast<std::uint64_t>(h.set + 1) == key[2] &&
           static_cast<std::uint64_t>(h.piece.tensor_begin) == key[3];
  });
}

/// Bytes of one rank's elements, on every rank.
GuardedBuffer broadcast_from(int root, const std::vector<Held>& held, const Odd& odd,
                             Communicator& world) {
  const bool mine = world.rank() == root;
  std::uint64_t shape[2] = {0, 0};
  if (mine) {
    const Held& h = find_held(held, odd.key);
    shape[0] = static_cast<std::uint64_t>(h.view.numel);
    shape[1] = static_cast<std::uint64_t>(h.view.dtype);
  }
  world.broadcast(std::as_writable_bytes(Span<std::uint64_t>(shape)), root);
  GuardedBuffer copy(static_cast<std::int64_t>(shape[0]), static_cast<DType>(shape[1]));
  const Span<std::byte> bytes(static_cast<std::byte*>(copy.data()),
                              static_cast<std::size_t>(copy.view().num_bytes()));
  if (mine)
    std::copy_n(static_cast<const std::byte*>(find_held(held, odd.key).view.data), bytes.size(),
                bytes.begin());
  world.broadcast(bytes, root);
  return copy;
}

}  // namespace

std::string describe(const Drift& d) {
  std::string text = "rank " + std::to_string(d.rank) + " drifted: " + d.buffer;
  if (!d.parameter.empty()) text += " of " + d.parameter + ", element " + std::to_string(d.element);
  return text + " is " + d.value + ", rank " + std::to_string(d.agrees_with) + " has " +
         d.expected + " (" + std::to_string(d.differing) +
         (d.differing == 1 ? " element differs)" : " elements differ)");
}

std::optional<Drift> find_drift(const CaseLayout& layout, DistributedOptimizer& optimizer,
                                Communicator& world) {
  const std::vector<Held> held = held_by(layout, world.rank(), optimizer);
  const std::optional<Odd> odd = find_odd(publish(held, world));
  if (!odd) return std::nullopt;
  const GuardedBuffer wrong = broadcast_from(odd->rank, held, *odd, world);
  const GuardedBuffer right = broadcast_from(odd->right, held, *odd, world);
  Drift drift;
  drift.rank = odd->rank;
  drift.agrees_with = odd->right;
  drift.buffer = name(static_cast<BufferId>(odd->key[0]));
  if (wrong.numel() != right.numel() || wrong.dtype() != right.dtype()) {
    drift.value = std::to_string(wrong.numel()) + " elements";
    drift.expected = std::to_string(right.numel());
    return drift;
  }
  const Comparison comparison = compare(right.view(), wrong.view(), 0, wrong.numel());
  drift.differing = comparison.differing;
  drift.value = show_bits(wrong.dtype(), comparison.first->candidate_bits);
  drift.expected = show_bits(right.dtype(), comparison.first->reference_bits);
  drift.element = comparison.first->index;
  if (odd->key[1] == 0) return drift;
  const int tp_rank = layout.place(odd->rank).tp_rank;
  const FlatLayout& tensors = layout.local(tp_rank).layout;
  const TensorSlot& slot = tensors.tensors()[odd->key[1] - 1];
  drift.parameter = slot.name;
  drift.element += static_cast<std::int64_t>(odd->key[3]);
  const Piece whole{static_cast<std::int64_t>(odd->key[1]) - 1, 0, slot.begin, slot.begin,
                    slot.numel};
  drift.global_index = layout.global_index(tp_rank, whole, drift.element);
  return drift;
}

}  // namespace zeroproof::verification
