#pragma once
// Ranks of one process that pretend to be on several machines.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"

namespace zeroproof {

/// Forwards every call, except that ranks share memory only if they have one host, whose name does
/// not start with "!". They share no addresses.
class HostedCommunicator final : public Communicator {
 public:
  /// hosts: [world_size]. inner outlives this.
  HostedCommunicator(Communicator& inner, std::vector<std::string> hosts)
      : inner_(&inner), hosts_(std::move(hosts)) {}
  HostedCommunicator(std::unique_ptr<Communicator> inner, std::vector<std::string> hosts)
      : owned_(std::move(inner)), inner_(owned_.get()), hosts_(std::move(hosts)) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string name() const override { return inner_->name(); }
  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    inner_->all_to_all(send, recv);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    inner_->all_gather(mine, recv);
  }
  void broadcast(Span<std::byte> data, int root) override { inner_->broadcast(data, root); }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    inner_->all_reduce(data, op);
  }
  void barrier() override { inner_->barrier(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    inner_->native_reduce_scatter(send, counts, recv);
  }
  std::chrono::milliseconds time_limit() const override { return inner_->time_limit(); }
  std::string host_of(int rank) const override { return hosts_[rank]; }

  std::unique_ptr<Communicator> split(int colour) override {
    const auto own = static_cast<std::size_t>(rank());
    std::vector<std::uint64_t> colours(hosts_.size(), 0);
    colours[own] = static_cast<std::uint64_t>(colour);
    inner_->all_reduce(colours, IntegerReduce::sum);
    std::vector<std::string> hosts;
    for (std::size_t r = 0; r < hosts_.size(); ++r) {
      if (colours[r] == colours[own]) hosts.push_back(hosts_[r]);
    }
    return std::make_unique<HostedCommunicator>(inner_->split(colour), std::move(hosts));
  }

  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    for (const std::string& host : hosts_) {
      if (host != hosts_.front() || host.starts_with('!')) return nullptr;
    }
    return inner_->shared_window(num_bytes);
  }

 private:
  const std::unique_ptr<Communicator> owned_;
  Communicator* const inner_;
  const std::vector<std::string> hosts_;
};

}  // namespace zeroproof
