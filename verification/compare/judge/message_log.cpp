#include "verification/compare/judge/message_log.hpp"

#include <cstddef>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/wrapped_communicator.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"

namespace zeroproof::verification {

/// A communicator with copies of what its ranks sent and received.
class MessageLog::Group final : public WrappedCommunicator {
 public:
  explicit Group(Communicator& inner)
      : WrappedCommunicator(inner),
        sent_(static_cast<std::size_t>(inner.world_size())),
        received_(sent_.size()) {}

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    ++calls_;
    for (std::size_t to = 0; to < send.size(); ++to) log_sent(to, send[to]);
    inner_.all_to_all(send, recv);
    for (std::size_t from = 0; from < recv.size(); ++from)
      log_received(Collective::all_to_all, from, recv[from]);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    ++calls_;
    for (std::size_t to = 0; to < sent_.size(); ++to) log_sent(to, mine);
    inner_.all_gather(mine, recv);
    for (std::size_t from = 0; from < recv.size(); ++from)
      log_received(Collective::all_gather, from, recv[from]);
  }
  void broadcast(Span<std::byte> data, int root) override {
    ++calls_;
    for (std::size_t to = 0; to < sent_.size() && root == rank(); ++to) log_sent(to, data);
    inner_.broadcast(data, root);
    log_received(Collective::broadcast, static_cast<std::size_t>(root), data);
  }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    ++calls_;
    inner_.all_reduce(data, op);
  }
  void barrier() override {
    ++calls_;
    inner_.barrier();
  }
  std::unique_ptr<Communicator> split(int colour) override {
    ++calls_;
    return inner_.split(colour);
  }
  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    ++calls_;
    return inner_.shared_window(num_bytes);
  }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    ++calls_;
    inner_.native_reduce_scatter(send, counts, recv);
  }

  std::optional<BrokenMessage> check(Communicator& harness, int rank) {
    std::vector<int> ranks(sent_.size());
    std::vector<Span<std::byte>> places;
    for (int& one : ranks) places.push_back(std::as_writable_bytes(Span<int>(&one, 1)));
    harness.all_gather(std::as_bytes(Span<const int>(&rank, 1)), places);
    std::vector<std::vector<std::byte>> again(sent_.size());
    const std::vector<Span<const std::byte>> send(sent_.begin(), sent_.end());
    std::vector<Span<std::byte>> receive;
    for (std::size_t from = 0; from < again.size(); ++from) {
      again[from].resize(received_[from].bytes.size());
      receive.emplace_back(again[from]);
    }
    harness.all_to_all(send, receive);
    std::optional<BrokenMessage> first;
    for (std::size_t from = 0; from < again.size(); ++from) {
      std::optional<BrokenMessage> broken = first_broken(received_[from], again[from]);
      if (!broken || (first && first->number <= broken->number)) continue;
      first = std::move(broken);
      first->from = ranks[from];
      first->to = rank;
    }
    for (std::vector<std::byte>& bytes : sent_) bytes.clear();
    for (Received& of_rank : received_) of_rank = {};
    return first;
  }

 private:
  struct Message {
    Collective collective;
    std::int64_t number;
    std::size_t num_bytes;
  };
  struct Received {
    std::vector<Message> messages;
    std::vector<std::byte> bytes;  // of all of them
  };

  bool is_self(std::size_t peer) const { return peer == static_cast<std::size_t>(rank()); }

  void log_sent(std::size_t to, Span<const std::byte> data) {
    if (!is_self(to)) sent_[to].insert(sent_[to].end(), data.begin(), data.end());
  }
  void log_received(Collective collective, std::size_t from, Span<const std::byte> data) {
    if (is_self(from)) return;
    received_[from].messages.push_back({collective, calls_, data.size()});
    received_[from].bytes.insert(received_[from].bytes.end(), data.begin(), data.end());
  }

  static std::optional<BrokenMessage> first_broken(const Received& received,
                                                   const std::vector<std::byte>& sent) {
    std::size_t begin = 0;
    for (const Message& message : received.messages) {
      BrokenMessage broken;
      for (std::size_t i = begin; i < begin + message.num_bytes; ++i) {
        if (received.bytes[i] == sent[i] || broken.differing++ > 0) continue;
        broken.first = static_cast<std::int64_t>(i - begin);
        broken.sent = std::to_integer<int>(sent[i]);
        broken.received = std::to_integer<int>(received.bytes[i]);
      }
      broken.collective = zeroproof::name(message.collective);
      broken.number = message.number;
      broken.num_bytes = static_cast<std::int64_t>(message.num_bytes);
      if (broken.differing > 0) return broken;
      begin += message.num_bytes;
    }
    return {};
  }

  std::int64_t calls_ = 0;
  std::vector<std::vector<std::byte>> sent_;  // [world_size]
  std::vector<Received> received_;            // [world_size]
};

MessageLog::MessageLog() = default;
MessageLog::~MessageLog() = default;

void MessageLog::place(OptimizerSetup& setup) {
  Communicator** const groups[] = {&setup.comm, &setup.replicas, &setup.tp};
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (*groups[g] == nullptr) continue;
    groups_[g] = std::make_unique<Group>(**groups[g]);
    *groups[g] = groups_[g].get();
  }
}

std::optional<BrokenMessage> MessageLog::check(const OptimizerSetup& harness, int rank) {
  Communicator* const groups[] = {harness.comm, harness.replicas, harness.tp};
  std::optional<BrokenMessage> first;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g] == nullptr) continue;
    std::optional<BrokenMessage> broken = groups_[g]->check(*groups[g], rank);
    if (!broken || first) continue;
    first = std::move(broken);
    first->group = name(static_cast<CommGroup>(g));
  }
  return first;
}

}  // namespace zeroproof::verification
