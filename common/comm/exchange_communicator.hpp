#pragma once
// All collectives expressed as one exchange: every rank sends bytes to, and receives bytes from,
// every rank.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof {

/// Base of the communicators of this folder: checks the arguments, describes the call, and leaves the exchange
/// to the derived class. A wrong argument throws Error(ErrorCode::invalid_argument) here and aborts the other
/// ranks, which would otherwise wait for this one.
class ExchangeCommunicator : public Communicator {
 public:
  void all_to_all(Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv) final;
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) final;
  void broadcast(Span<std::byte> data, int root) final;
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override;
  void barrier() final;
  std::unique_ptr<Communicator> split(int colour) final;
  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) final;
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) final;

 protected:
  using SendBlocks = Span<const Span<const std::byte>>;
  /// Takes the block that came from a rank. Called for rank 0, 1, ... in turn, once each; the block
  /// is invalid afterwards.
  using TakeBlock = std::function<void(std::size_t from, Span<const std::byte> block)>;

  /// Compares `call` (all but its sequence number is set) with those of the other ranks, then moves send[d]
  /// to recv[rank()] of rank d. The buffers are free for reuse when it returns or throws.
  virtual void exchange(CollectiveCall call, SendBlocks send, Span<const Span<std::byte>> recv) = 0;

  /// The same without a receive buffer: call.recv_bytes has the expected sizes. Unless a class
  /// overrides it, all blocks are received before the first is taken.
  virtual void exchange_each(CollectiveCall call, SendBlocks send, const TakeBlock& take);

  /// The blocks that reduce_scatter adds, in the library's own order; here from rank 0 upwards.
  virtual void reduce_scatter(CollectiveCall call, Span<const float> send,
                              Span<const std::int64_t> counts, Span<float> recv);

  /// A number that ranks agree on in split(): the group gets the largest of its parent's ranks.
  virtual std::int64_t next_ticket() { return 0; }

  /// The group of `members`, ranks of this communicator in ascending order with this one among them. Made by
  /// all members, each for itself, and by the other groups of the same split at the same time.
  virtual std::unique_ptr<Communicator> make_group(const std::vector<int>& members,
                                                   std::int64_t ticket) = 0;

  /// sizes: [world_size] bytes requested by each rank.
  virtual std::unique_ptr<SharedWindow> make_window(const std::vector<std::int64_t>& sizes) = 0;

  /// send[d] of an exchange where every rank gets the same.
  std::vector<Span<const std::byte>> to_all(Span<const std::byte> block) const;
  static CollectiveCall call_of(Collective collective, SendBlocks send,
                                std::vector<std::int64_t> recv_bytes);

 private:
  void run(CollectiveCall call, SendBlocks send, Span<const Span<std::byte>> recv);
  void require(bool condition, const std::string& problem, const std::string& why,
               const std::string& remedy);
};

/// Copies a block to one of the same size. Nothing happens if both are the same block or empty.
void copy_block(Span<const std::byte> from, Span<std::byte> to);

}  // namespace zeroproof
