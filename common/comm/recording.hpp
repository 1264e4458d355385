#pragma once
// Counts the data that a rank sends and receives, collective by collective.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/comm/collective_call.hpp"
#include "common/comm/wrapped_communicator.hpp"

namespace zeroproof {

/// Traffic of one rank. Only data to or from another rank count; the own block does not, nor do the
/// descriptors that ranks compare before data moves.
struct TrafficEntry {
  std::int64_t calls = 0;
  std::int64_t messages_sent = 0;      ///< blocks of 1 byte or more to another rank
  std::int64_t messages_received = 0;  ///< blocks of 1 byte or more from another rank
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;

  TrafficEntry& operator+=(const TrafficEntry& other);
  friend bool operator==(const TrafficEntry&, const TrafficEntry&) = default;
};

struct Traffic {
  std::array<TrafficEntry, num_collectives> of_kind;

  const TrafficEntry& of(Collective collective) const {
    return of_kind[static_cast<std::size_t>(collective)];
  }
  TrafficEntry total() const;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Counters of a described call, for its rank.
TrafficEntry traffic_of(const CollectiveCall& call, int rank);

/// Passes every call on to another communicator and counts it once it has succeeded. With W ranks, this one being r:
///
/// - all_to_all: sends |send[d]| to each d != r; receives |recv[s]| from each s != r
/// - all_gather: sends |mine| to each of W - 1 ranks; receives |recv[s]| from each s != r
/// - broadcast: root sends |data| to each of W - 1 ranks; every other rank receives |data|, once
/// - all_reduce: of n words: sends 8 n bytes to each of W - 1 ranks and receives as much from each.
///   Every rank gets all words and combines them itself: (W - 1) 8 n bytes each way, not
///   2 (W - 1) / W
/// - barrier: nothing but the call
/// - reduce_scatter: sends 4 counts[d] to each d != r; receives 4 counts[r] from each of W - 1
///   ranks. That is the traffic of threads; the MPI library may use another algorithm
/// - split: nothing but the call: it is set-up
/// - shared_window: likewise; accesses to a window, and its fences, are not counted
/// - exchange_places: nothing at all: the taking rank moves the data
///
/// Groups that split() makes report into the same record: this rank's calls in all of them, in one sum.
class RecordingCommunicator final : public WrappedCommunicator {
 public:
  /// inner must outlive this object.
  explicit RecordingCommunicator(Communicator& inner);

  /// Counters since the start or the last reset, groups included. May be called from any thread.
  Traffic traffic() const;
  void reset();

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override;
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override;
  void broadcast(Span<std::byte> data, int root) override;
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int colour) override;
  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override;
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override;

 private:
  struct Record;
  RecordingCommunicator(std::unique_ptr<Communicator> group, std::shared_ptr<Record> record);
  void add(Collective collective, TrafficEntry entry);

  std::shared_ptr<Record> record_;
};

}  // namespace zeroproof
