#pragma once
// Moves bytes and adds integers between ranks. No communicator ever adds two floats (R10).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof {

struct CollectiveCall;

enum class IntegerReduce : std::uint8_t { sum, max, bitwise_or };

/// Memory of every rank of a group that all of them can read and write, where ranks share a machine.
class SharedWindow {
 public:
  virtual ~SharedWindow() = default;

  /// The block of one rank, num_bytes long as that rank requested; not necessarily aligned to more than 16 bytes.
  virtual Span<std::byte> of(int rank) const = 0;

  /// Collective: writes of any rank before it are visible to every rank afterwards.
  virtual void fence() = 0;
};

/// A group of ranks. Every call is collective: all ranks make the same calls in the same order.
///
/// Before data moves, the ranks compare a descriptor of the call (operation, counts, sequence number). Any
/// disagreement, a rank that died, or one that does not arrive within the time limit becomes the same Error
/// on every rank that is left, naming the rank and the calls (ErrorCode::comm, or ErrorCode::timeout for an
/// absent rank). After an error the communicator stays broken: every further call throws the same Error at
/// once.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual std::string name() const = 0;  ///< "self", "threads:4", "mpi:2"

  /// Sends send[d] to rank d and receives from rank s into recv[s].
  /// Shapes   send, recv: world_size spans each; send[d] on rank s has as many bytes as recv[s] on rank d;
  ///          any may be empty. No buffer overlaps another. The rank's own part is copied as well.
  virtual void all_to_all(Span<const Span<const std::byte>> send,
                          Span<const Span<std::byte>> recv) = 0;

  /// Every rank's `mine` arrives in recv[rank] of all ranks. The lengths may differ between ranks and may be
  /// 0. `mine` may be exactly recv[rank()], which then is not copied.
  virtual void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) = 0;

  /// Bytes of root's data arrive in data of all ranks; the length is the same everywhere.
  virtual void broadcast(Span<std::byte> data, int root) = 0;

  /// Elementwise integer reduction over ranks, in place; the result is the same on every rank. Sums wrap.
  virtual void all_reduce(Span<std::uint64_t> data, IntegerReduce op) = 0;

  virtual void barrier() = 0;

  /// Collective: ranks of equal colour form a group of their own, in the order of their ranks here. The group may be
  /// used beside this communicator, also from another thread; it must not outlive it. Colours are 0 or more.
  virtual std::unique_ptr<Communicator> split(int colour);

  /// Collective: blocks that all ranks of this group can access; null on every rank if some of them share no memory.
  /// num_bytes may differ between ranks and may be 0. Initially 0xFF.
  virtual std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes);

  /// The library's own sum of floats: element i of the concatenated parts is summed over all ranks in an order the
  /// library chooses, and rank r receives part r. Not for anything that promises bits (R10): native mode and benchmarks
  /// only.
  /// Shapes   send: [sum of counts]; counts: [world_size]; recv: [counts[rank()]], no overlap.
  virtual void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                                     Span<float> recv);

  /// Whether all ranks are threads of one process, so that an address means the same to each of them.
  virtual bool shares_addresses() const { return false; }

  using TakePlace = std::function<void(std::size_t from, Span<const std::byte> place)>;
  /// For communicators built on this one: the ranks meet as in any collective, but the sent data
  /// are not checked. take is called with the address of every rank's block for this rank, for rank
  /// 0, 1, ... in turn; the call returns after all ranks have taken theirs, so take must not wait
  /// for another rank. Only if shares_addresses().
  /// call: all but its sequence number is set, recv_bytes as long as the blocks that are expected.
  virtual void exchange_places(const CollectiveCall& call, Span<const Span<const std::byte>> send,
                               const TakePlace& take);

  /// How long ranks wait for each other here.
  virtual std::chrono::milliseconds time_limit() const;

  /// Host of a rank, for messages; "" if unknown.
  virtual std::string host_of(int rank) const;

  /// Aborts the other ranks: they end with this reason instead of waiting.
  virtual void abort(const std::string& reason) = 0;
};

inline constexpr std::chrono::milliseconds default_comm_timeout{60'000};

}  // namespace zeroproof
