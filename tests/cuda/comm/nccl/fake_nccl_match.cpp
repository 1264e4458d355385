// Matches calls of ranks, and reports errors that NCCL would not detect.

#include "tests/cuda/comm/nccl/fake_nccl_state.hpp"

namespace zp_fake_nccl {

namespace {

std::string text_of(const Call& call) {
  return std::string(name(call.kind)) + " of " + std::to_string(call.count) + " x " +
         std::to_string(bytes_of(call.type)) + " bytes, op " + std::to_string(call.op) +
         ", peer or root " + std::to_string(call.peer);
}

bool agree(const Call& a, const Call& b) {
  if (a.count != b.count || a.type != b.type) return false;
  if (a.kind == Kind::send || a.kind == Kind::recv) return true;
  return a.kind == b.kind && a.op == b.op && a.peer == b.peer;
}

enum class Place : std::uint8_t { ordinary, window, message, former };

/// Location of a buffer as registered by its rank.
Place place_of(const Call& call, const void* data) {
  Place place = Place::ordinary;
  const auto* const at = static_cast<const std::byte*>(data);
  for (const auto& window : call.comm->windows) {
    if (at >= window->begin && at < window->begin + window->size)
      place = !window->registered ? Place::former
              : window->symmetric ? Place::window
                                  : Place::message;
  }
  return place;
}

/// A collective is fast if its buffers are windows on all ranks, and wrong in NCCL if they are on
/// some.
void check_windows(const Operation& operation) {
  const Call& first = operation.parts.front().call;
  for (const Operation::Part& part : operation.parts) {
    const Place received =
        part.call.recv != nullptr ? place_of(part.call, part.call.recv) : Place::ordinary;
    if (received == Place::window) ++state().received_in_windows;
    if (received == Place::message) ++state().received_in_messages;
    for (const auto member : {&Call::send, static_cast<const void * Call::*>(nullptr)}) {
      const void* const data = member != nullptr ? part.call.*member : part.call.recv;
      const void* const others = member != nullptr ? first.send : first.recv;
      if (data == nullptr || others == nullptr) continue;
      if (place_of(part.call, data) == Place::former)
        complain(part.call.comm, text_of(part.call) + " uses a window after its deregistration");
      else if (first.kind > Kind::recv && (place_of(part.call, data) == Place::window) !=
                                              (place_of(first, others) == Place::window))
        complain(part.call.comm,
                 text_of(part.call) + " has a window where rank 0 has none, or vice versa");
    }
  }
}

/// All ranks have posted theirs: it is not searched any more.
void forget(const Call& call) {
  ncclComm& comm = *call.comm;
  if (call.kind != Kind::send && call.kind != Kind::recv) {
    comm.clique->collectives.erase(comm.num_collectives);
    return;
  }
  const auto way =
      call.kind == Kind::send ? std::pair(comm.rank, call.peer) : std::pair(call.peer, comm.rank);
  comm.clique->messages[way].erase(comm.num_messages[way]);
}

}  // namespace

Operation::Part& part_of(Operation& operation, const Call& call) {
  if (call.kind == Kind::send) return operation.parts[0];
  if (call.kind == Kind::recv) return operation.parts[1];
  return operation.parts[call.comm->rank];
}

std::shared_ptr<Operation> post(const Call& call, bool begins) {
  ncclComm& comm = *call.comm;
  const bool message = call.kind == Kind::send || call.kind == Kind::recv;
  std::shared_ptr<Operation>* slot = nullptr;
  if (message) {
    const std::pair<int, int> way =
        call.kind == Kind::send ? std::pair(comm.rank, call.peer) : std::pair(call.peer, comm.rank);
    slot = &comm.clique->messages[way][++comm.num_messages[way]];
  } else {
    slot = &comm.clique->collectives[++comm.num_collectives];
  }
  if (!*slot) {
    *slot = std::make_shared<Operation>();
    (*slot)->parts.resize(message ? 2 : static_cast<std::size_t>(comm.clique->num_ranks));
  }
  Operation& operation = **slot;
  operation.dead = operation.dead || !begins;
  for (const Operation::Part& other : operation.parts) {
    if (!other.posted || agree(call, other.call)) continue;
    complain(&comm, text_of(call) + " on rank " + std::to_string(comm.rank) + " met " +
                        text_of(other.call) + " on rank " + std::to_string(other.call.comm->rank));
    operation.dead = true;
    break;
  }
  Operation::Part& mine = part_of(operation, call);
  mine.call = call;
  mine.posted = true;
  ++operation.num_posted;
  if (call.stream) {
    const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
    mine.ready = {call.stream, call.stream->end_position(), nullptr};
  }
  if (operation.num_posted == operation.parts.size() && !operation.dead) {
    check_windows(operation);
    enqueue_work(operation);
  }
  const std::shared_ptr<Operation> posted = *slot;
  if (operation.num_posted == operation.parts.size()) forget(call);
  return posted;
}

void abandon(Operation& operation, int rank) {
  if (operation.open) return;
  operation.dead = true;
  const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
  for (const Operation::Part& part : operation.parts) {
    if (part.posted && part.call.comm->rank == rank && part.gate->passed(0) &&
        part.gate->end_position() == 0)
      part.gate->push({nullptr, {}});
  }
}

}  // namespace zp_fake_nccl
