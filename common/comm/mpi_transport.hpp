#pragma once
// Bytes between two processes, without waiting (internal to the MPI communicator).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/span.hpp"

namespace zeroproof {

/// Transfers on a channel of its own in MPI_COMM_WORLD. Making one takes no communication, so it cannot hang;
/// all ranks make theirs in the same order. Transfers of one pair of ranks and one kind arrive in the order
/// they were started.
class MpiTransport {
 public:
  enum class Kind { control, data };

  MpiTransport();
  ~MpiTransport();

  int rank() const;
  int world_size() const;

  /// Starts a transfer and returns its handle. The memory must stay until it is finished or abandoned.
  int send(int peer, Kind kind, Span<const std::byte> data);
  int receive(int peer, Kind kind, Span<std::byte> data);

  /// The number of bytes moved if the transfer is complete, which ends its handle; nothing while it is under
  /// way.
  std::optional<std::int64_t> finished(int handle);

  /// Gives all transfers up. Returns false if MPI may still touch memory of Kind::data, since it cannot take
  /// back what has begun; that of a control message sent must stay in any case.
  bool abandon();

 private:
  struct Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace zeroproof
