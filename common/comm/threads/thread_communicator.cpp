#include "common/comm/threads/thread_communicator.hpp"

#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/comm/local_host.hpp"
#include "common/comm/shared_blocks.hpp"

namespace zeroproof {

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadRendezvous> meeting, int rank)
    : meeting_(std::move(meeting)), rank_(rank) {}

/// A rank can get another communicator of the world, but not of a group. During an exception it
/// reports nothing: the handler of the exception reports it to the world.
ThreadCommunicator::~ThreadCommunicator() {
  if (meeting_->is_group() && std::uncaught_exceptions() == exceptions_at_start_)
    meeting_->leave(rank_);
}

std::string ThreadCommunicator::host_of(int) const { return local_host(); }

void ThreadCommunicator::exchange(CollectiveCall call, SendBlocks send,
                                  Span<const Span<std::byte>> recv) {
  exchange_each(std::move(call), send, [&](std::size_t from, Span<const std::byte> block) {
    copy_block(block, recv[from]);
  });
}

void ThreadCommunicator::exchange_each(CollectiveCall call, SendBlocks send,
                                       const TakeBlock& take) {
  meeting_->exchange(rank_, std::move(call), send, take);
}

void ThreadCommunicator::exchange_places(const CollectiveCall& call, SendBlocks send,
                                         const TakePlace& take) {
  meeting_->exchange(rank_, call, send, take);
}

/// All members share the first member's object: they copy its pointer while it waits for them.
template <class Object>
std::shared_ptr<Object> ThreadCommunicator::share(const std::shared_ptr<Object>& mine,
                                                  const std::vector<int>& members,
                                                  Collective collective) {
  const std::shared_ptr<Object>* address = &mine;
  const std::size_t ranks = static_cast<std::size_t>(world_size());
  std::vector<Span<const std::byte>> send(ranks);
  std::vector<std::int64_t> recv_bytes(ranks);
  if (rank_ == members.front()) {
    for (const int member : members) {
      send[member] = std::as_bytes(Span<const std::shared_ptr<Object>* const>(&address, 1));
    }
  }
  // The address itself is sent.
  recv_bytes[members.front()] = sizeof(address);  // NOLINT(bugprone-sizeof-expression)
  std::shared_ptr<Object> shared;
  exchange_each(call_of(collective, send, std::move(recv_bytes)), send,
                [&](std::size_t, Span<const std::byte> block) {
                  if (block.empty()) return;
                  const std::shared_ptr<Object>* first = nullptr;
                  std::memcpy(&first, block.data(),
                              sizeof(first));  // NOLINT(bugprone-sizeof-expression)
                  shared = *first;
                });
  return shared;
}

std::unique_ptr<Communicator> ThreadCommunicator::make_group(const std::vector<int>& members,
                                                             std::int64_t) {
  std::shared_ptr<ThreadRendezvous> mine;
  if (rank_ == members.front()) mine = std::make_shared<ThreadRendezvous>(*meeting_, members);
  int rank_in_group = 0;
  while (members[rank_in_group] != rank_) ++rank_in_group;
  return std::make_unique<ThreadCommunicator>(share(mine, members, Collective::split),
                                              rank_in_group);
}

std::unique_ptr<SharedWindow> ThreadCommunicator::make_window(
    const std::vector<std::int64_t>& sizes) {
  std::vector<int> members(sizes.size());
  std::iota(members.begin(), members.end(), 0);
  std::shared_ptr<SharedBlocks> mine;
  try {
    if (rank_ == 0) mine = std::make_shared<SharedBlocks>(sizes);
  } catch (const Error& error) {
    abort(error.what());
    throw;
  }
  return make_window_over(share(mine, members, Collective::shared_window), *this);
}

}  // namespace zeroproof
