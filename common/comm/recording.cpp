#include "common/comm/recording.hpp"

#include <cstddef>
#include <mutex>
#include <utility>

namespace zeroproof {

struct RecordingCommunicator::Record {
  std::mutex mutex;
  Traffic traffic;
};

namespace {

void count_sent(TrafficEntry& entry, std::int64_t num_bytes, std::int64_t times = 1) {
  if (num_bytes == 0) return;
  entry.messages_sent += times;
  entry.bytes_sent += times * num_bytes;
}

void count_received(TrafficEntry& entry, std::int64_t num_bytes, std::int64_t times = 1) {
  if (num_bytes == 0) return;
  entry.messages_received += times;
  entry.bytes_received += times * num_bytes;
}

}  // namespace

TrafficEntry& TrafficEntry::operator+=(const TrafficEntry& other) {
  calls += other.calls;
  messages_sent += other.messages_sent;
  messages_received += other.messages_received;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  return *this;
}

TrafficEntry traffic_of(const CollectiveCall& call, int rank) {
  TrafficEntry entry;
  entry.calls = 1;
  for (std::size_t peer = 0; peer < call.send_bytes.size(); ++peer) {
    if (peer == static_cast<std::size_t>(rank)) continue;
    count_sent(entry, call.send_bytes[peer]);
    count_received(entry, call.recv_bytes[peer]);
  }
  return entry;
}

TrafficEntry Traffic::total() const {
  TrafficEntry sum;
  for (const TrafficEntry& entry : of_kind) sum += entry;
  return sum;
}

RecordingCommunicator::RecordingCommunicator(Communicator& inner)
    : WrappedCommunicator(inner), record_(std::make_shared<Record>()) {}

RecordingCommunicator::RecordingCommunicator(std::unique_ptr<Communicator> group,
                                             std::shared_ptr<Record> record)
    : WrappedCommunicator(std::move(group)), record_(std::move(record)) {}

Traffic RecordingCommunicator::traffic() const {
  const std::lock_guard lock(record_->mutex);
  return record_->traffic;
}

void RecordingCommunicator::reset() {
  const std::lock_guard lock(record_->mutex);
  record_->traffic = Traffic{};
}

void RecordingCommunicator::add(Collective collective, TrafficEntry entry) {
  entry.calls = 1;
  const std::lock_guard lock(record_->mutex);
  record_->traffic.of_kind[static_cast<std::size_t>(collective)] += entry;
}

void RecordingCommunicator::all_to_all(Span<const Span<const std::byte>> send,
                                       Span<const Span<std::byte>> recv) {
  inner_.all_to_all(send, recv);
  TrafficEntry entry;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer == rank()) continue;
    count_sent(entry, numel(send[peer]));
    count_received(entry, numel(recv[peer]));
  }
  add(Collective::all_to_all, entry);
}

void RecordingCommunicator::all_gather(Span<const std::byte> mine,
                                       Span<const Span<std::byte>> recv) {
  inner_.all_gather(mine, recv);
  TrafficEntry entry;
  count_sent(entry, numel(mine), world_size() - 1);
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank()) count_received(entry, numel(recv[peer]));
  }
  add(Collective::all_gather, entry);
}

void RecordingCommunicator::broadcast(Span<std::byte> data, int root) {
  inner_.broadcast(data, root);
  TrafficEntry entry;
  if (rank() == root)
    count_sent(entry, numel(data), world_size() - 1);
  else
    count_received(entry, numel(data));
  add(Collective::broadcast, entry);
}

void RecordingCommunicator::all_reduce(Span<std::uint64_t> data, IntegerReduce op) {
  inner_.all_reduce(data, op);
  TrafficEntry entry;
  count_sent(entry, numel(std::as_bytes(data)), world_size() - 1);
  count_received(entry, numel(std::as_bytes(data)), world_size() - 1);
  add(Collective::all_reduce, entry);
}

void RecordingCommunicator::barrier() {
  inner_.barrier();
  add(Collective::barrier, {});
}

std::unique_ptr<Communicator> RecordingCommunicator::split(int colour) {
  std::unique_ptr<Communicator> group = inner_.split(colour);
  add(Collective::split, {});
  return std::unique_ptr<Communicator>(new RecordingCommunicator(std::move(group), record_));
}

std::unique_ptr<SharedWindow> RecordingCommunicator::shared_window(std::int64_t num_bytes) {
  std::unique_ptr<SharedWindow> window = inner_.shared_window(num_bytes);
  add(Collective::shared_window, {});
  return window;
}

void RecordingCommunicator::native_reduce_scatter(Span<const float> send,
                                                  Span<const std::int64_t> counts,
                                                  Span<float> recv) {
  inner_.native_reduce_scatter(send, counts, recv);
  TrafficEntry entry;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank()) count_sent(entry, 4 * counts[peer]);
  }
  count_received(entry, 4 * numel(recv), world_size() - 1);
  add(Collective::reduce_scatter, entry);
}

}  // namespace zeroproof
