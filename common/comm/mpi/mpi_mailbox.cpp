#include "common/comm/mpi/mpi_mailbox.hpp"

#include <algorithm>
#include <utility>

namespace zeroproof {

MpiMailbox::MpiMailbox(MpiTransport& transport)
    : transport_(transport), peers_(static_cast<std::size_t>(transport.world_size())) {
  for (int rank = 0; rank < transport_.world_size(); ++rank) {
    if (rank != transport_.rank()) listen(rank);
  }
}

void MpiMailbox::listen(int rank) {
  Peer& from = peers_[rank];
  from.inbox.resize(max_encoded_bytes(transport_.world_size()));
  from.inbox_handle = transport_.receive(rank, MpiTransport::Kind::control, from.inbox);
}

/// MPI may still read messages for a rank that never received them: their memory must stay
/// allocated.
MpiMailbox::~MpiMailbox() {
  static std::mutex mutex;
  static std::vector<Outgoing> undelivered;
  const std::lock_guard lock(mutex);
  for (Outgoing& message : outbox_) undelivered.push_back(std::move(message));
}

void MpiMailbox::post(const MpiMessage& message) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  // A handle for every rank first: if MPI rejects a send, the other handles stay valid.
  outbox_.push_back(
      {encode(message, transport_.world_size()), std::vector<int>(transport_.world_size(), -1)});
  Outgoing& outgoing = outbox_.back();
  for (int rank = 0; rank < transport_.world_size(); ++rank) {
    if (rank == transport_.rank()) continue;
    outgoing.handles[rank] = transport_.send(rank, MpiTransport::Kind::control, outgoing.data);
  }
}

bool MpiMailbox::posted(int rank) const {
  const std::lock_guard lock(mutex_);
  return std::all_of(outbox_.begin(), outbox_.end(),
                     [&](const Outgoing& message) { return message.handles[rank] < 0; });
}

std::int64_t MpiMailbox::progress() {
  const std::lock_guard lock(mutex_);
  if (closed_) return news_;
  send_on();
  for (int rank = 0; rank < transport_.world_size(); ++rank) {
    while (const std::optional<MpiMessage> message = receive(rank)) {
      take_in(peers_[rank], *message);
      if (message->kind != MpiMessage::Kind::waiting) ++news_;
    }
  }
  return news_;
}

void MpiMailbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void MpiMailbox::send_on() {
  for (Outgoing& message : outbox_) {
    for (int& handle : message.handles) {
      if (handle >= 0 && transport_.finished(handle)) handle = -1;
    }
  }
  std::erase_if(outbox_, [](const Outgoing& message) {
    return std::all_of(message.handles.begin(), message.handles.end(),
                       [](int handle) { return handle < 0; });
  });
}

std::optional<MpiMessage> MpiMailbox::receive(int rank) {
  Peer& from = peers_[rank];
  if (from.inbox_handle < 0) return std::nullopt;
  const std::optional<std::int64_t> num_bytes = transport_.finished(from.inbox_handle);
  if (!num_bytes) return std::nullopt;
  const Span<const std::byte> data(from.inbox.data(), static_cast<std::size_t>(*num_bytes));
  MpiMessage message = decode(data, transport_.world_size());
  listen(rank);
  return message;
}

void MpiMailbox::take_in(Peer& from, const MpiMessage& message) {
  switch (message.kind) {
    case MpiMessage::Kind::call:
      from.calls.push_back(message.call);
      break;
    case MpiMessage::Kind::waiting:
      ++from.waiting;
      break;
    case MpiMessage::Kind::resumed:
      --from.waiting;
      break;
    case MpiMessage::Kind::left:
      from.left = true;
      break;
    case MpiMessage::Kind::failure:
      if (failure_ &&
          (failure_->channel != message.channel || failure_->calls_before <= message.call.sequence))
        break;
      failure_ = Failure{Error(message.code, message.text), message.channel, message.call.sequence};
      break;
  }
}

bool MpiMailbox::has_call(int rank) const {
  const std::lock_guard lock(mutex_);
  return !peer(rank).calls.empty();
}

bool MpiMailbox::left(int rank) const {
  const std::lock_guard lock(mutex_);
  return peer(rank).left;
}

bool MpiMailbox::waiting(int rank) const {
  const std::lock_guard lock(mutex_);
  return peer(rank).waiting > 0;
}

std::optional<MpiMailbox::Failure> MpiMailbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

CollectiveCall MpiMailbox::take_call(int rank) {
  const std::lock_guard lock(mutex_);
  std::deque<CollectiveCall>& calls = peers_[rank].calls;
  CollectiveCall call = std::move(calls.front());
  calls.pop_front();
  return call;
}

}  // namespace zeroproof
