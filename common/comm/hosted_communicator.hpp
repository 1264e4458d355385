#pragma once
// Ranks of one process that pretend to be on several machines.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/wrapped_communicator.hpp"

namespace zeroproof {

/// Forwards every call, except that ranks share memory only if they have one host, whose name does
/// not start with "!". They share no addresses.
class HostedCommunicator final : public WrappedCommunicator {
 public:
  /// hosts: [world_size]. inner outlives this.
  HostedCommunicator(Communicator& inner, std::vector<std::string> hosts)
      : WrappedCommunicator(inner), hosts_(std::move(hosts)) {}
  HostedCommunicator(std::unique_ptr<Communicator> inner, std::vector<std::string> hosts)
      : WrappedCommunicator(std::move(inner)), hosts_(std::move(hosts)) {}

  bool shares_addresses() const override { return false; }
  void exchange_places(const CollectiveCall& call, Span<const Span<const std::byte>> send,
                       const TakePlace& take) override {
    Communicator::exchange_places(call, send, take);  // refused: there are no addresses
  }
  std::string host_of(int rank) const override { return hosts_[rank]; }

  std::unique_ptr<Communicator> split(int colour) override {
    const auto own = static_cast<std::size_t>(rank());
    std::vector<std::uint64_t> colours(hosts_.size(), 0);
    colours[own] = static_cast<std::uint64_t>(colour);
    inner_.all_reduce(colours, IntegerReduce::sum);
    std::vector<std::string> hosts;
    for (std::size_t r = 0; r < hosts_.size(); ++r) {
      if (colours[r] == colours[own]) hosts.push_back(hosts_[r]);
    }
    return std::make_unique<HostedCommunicator>(inner_.split(colour), std::move(hosts));
  }

  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    for (const std::string& host : hosts_) {
      if (host != hosts_.front() || host.starts_with('!')) return nullptr;
    }
    return inner_.shared_window(num_bytes);
  }

 private:
  const std::vector<std::string> hosts_;
};

}  // namespace zeroproof
