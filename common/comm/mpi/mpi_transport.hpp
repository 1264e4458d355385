#pragma once
// Asynchronous transfers between two processes (internal to the MPI communicator).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof {

/// Transfers on a channel of its own in MPI_COMM_WORLD. Making one takes no communication, so it cannot hang.
/// Transfers of one pair of ranks and one kind arrive in the order they were started. Threads may call it at the
/// same time.
class MpiTransport {
 public:
  enum class Kind { control, data };

  /// Between all ranks of the world; all make theirs in the same order.
  MpiTransport();
  /// Between the ranks of a group. in_world: [world_size of the group] ascending, with this process among them.
  /// ticket: number of the group, the same on all its ranks and not used before on any of them.
  MpiTransport(std::vector<int> in_world, std::int64_t ticket);
  MpiTransport(MpiTransport&& other) noexcept;
  ~MpiTransport();

  int rank() const;
  int world_size() const;
  int in_world(int rank) const { return in_world()[rank]; }
  const std::vector<int>& in_world() const;
  /// Different for any two transports of a process, and the same for all ranks of one.
  int channel() const;
  /// A tag that no transfer uses, for MPI calls with a tag argument. Open MPI 4.1 does not keep the tag of
  /// MPI_Comm_create_group apart from those of messages.
  int library_tag() const;

  /// Starts a transfer and returns its handle. The memory must stay until it is finished or abandoned.
  int send(int peer, Kind kind, Span<const std::byte> data);
  int receive(int peer, Kind kind, Span<std::byte> data);

  /// The number of bytes moved if the transfer is complete, which ends its handle; nothing while it
  /// is in progress.
  std::optional<std::int64_t> finished(int handle);

  /// Abandons all transfers. Returns false if MPI may still access memory of Kind::data, since it
  /// cannot cancel them; memory of a sent control message must stay valid in any case.
  bool abandon();

 private:
  struct Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace zeroproof
