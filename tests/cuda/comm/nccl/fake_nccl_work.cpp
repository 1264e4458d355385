// The work of operations on the device. Takes no lock but the device's.

#include <cstring>
#include <mutex>

#include "tests/cuda/comm/nccl/fake_nccl_state.hpp"

namespace zp_fake_nccl {

namespace {

using Calls = std::vector<Call>;

std::size_t bytes_of(const Call& call) { return call.count * zp_fake_nccl::bytes_of(call.type); }

void copy(void* target, const void* source, std::size_t num_bytes) {
  if (num_bytes > 0 && target != source) std::memmove(target, source, num_bytes);
}

std::byte* at(const void* data, std::size_t num_bytes) {
  return static_cast<std::byte*>(const_cast<void*>(data)) +
         num_bytes;  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

/// From the last rank to the first: NCCL's order of addition is its own, and no code may rely on
/// another one.
template <class T>
std::vector<std::byte> combined(const Calls& calls, std::size_t begin, std::size_t count,
                                ncclRedOp_t op) {
  std::vector<T> values(count), other(count);
  for (std::size_t i = calls.size(); i-- > 0;) {
    std::memcpy(other.data(), at(calls[i].send, begin * sizeof(T)), count * sizeof(T));
    for (std::size_t j = 0; j < count; ++j) {
      const bool first = i + 1 == calls.size();
      const T sum = values[j] + other[j], larger = values[j] < other[j] ? other[j] : values[j];
      values[j] = first ? other[j] : op == ncclMax ? larger : sum;
    }
  }
  std::vector<std::byte> bytes(count * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> reduced(const Calls& calls, std::size_t begin, std::size_t count) {
  const Call& call = calls.front();
  return call.type == ncclFloat32 ? combined<float>(calls, begin, count, call.op)
                                  : combined<std::uint64_t>(calls, begin, count, call.op);
}

void do_work(const Calls& calls) {
  const Call& call = calls.front();
  const std::size_t size = bytes_of(call);
  switch (call.kind) {
    case Kind::send:
    case Kind::recv:
      return copy(calls[1].recv, calls[0].send, size);
    case Kind::all_gather:
      for (const Call& to : calls) {
        for (std::size_t from = 0; from < calls.size(); ++from)
          copy(at(to.recv, from * size), calls[from].send, size);
      }
      return;
    case Kind::broadcast:
      for (const Call& to : calls) copy(to.recv, calls[call.peer].send, size);
      return;
    case Kind::all_reduce: {
      const std::vector<std::byte> sum = reduced(calls, 0, call.count);
      for (const Call& to : calls) copy(to.recv, sum.data(), size);
      return;
    }
    case Kind::reduce_scatter: {
      std::vector<std::vector<std::byte>> sums;
      for (std::size_t rank = 0; rank < calls.size(); ++rank)
        sums.push_back(reduced(calls, rank * call.count, call.count));
      for (std::size_t rank = 0; rank < calls.size(); ++rank)
        copy(calls[rank].recv, sums[rank].data(), size);
      return;
    }
    case Kind::reduce:
      return copy(calls[call.peer].recv, reduced(calls, 0, call.count).data(), size);
    case Kind::window:
      return;
  }
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* names[] = {"send",       "recv",           "all_gather", "broadcast",
                                   "all_reduce", "reduce_scatter", "reduce",     "register"};
  return names[static_cast<std::size_t>(kind)];
}

std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : type == ncclFloat32 ? 4 : type == ncclUint64 ? 8 : 0;
}

/// The work of all ranks is one piece: it begins when all of their streams have reached it, and all
/// of them continue when it has ended. It refers to neither streams nor gates, which refer to it.
void enqueue_work(Operation& operation) {
  operation.open = true;
  if (operation.parts.front().call.kind == Kind::window) return;
  const std::lock_guard device(zeroproof::cuda::sim::device_mutex());
  Calls calls;
  for (const Operation::Part& part : operation.parts) {
    operation.work->push({nullptr, part.ready});
    calls.push_back(part.call);
    calls.back().stream.reset();
  }
  operation.work->push({[calls = std::move(calls)] { do_work(calls); }, {}});
  const Mark done{operation.work, operation.work->end_position(), nullptr};
  for (const Operation::Part& part : operation.parts) part.gate->push({nullptr, done});
}

}  // namespace zp_fake_nccl
