#pragma once
// One rank's view of a meeting (internal to the thread communicator).

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/exchange_communicator.hpp"
#include "common/comm/threads/thread_rendezvous.hpp"

namespace zeroproof {

class ThreadCommunicator final : public ExchangeCommunicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadRendezvous> meeting, int rank);
  ~ThreadCommunicator() override;

  int rank() const override { return rank_; }
  int world_size() const override { return meeting_->world_size(); }
  std::string name() const override { return "threads:" + std::to_string(world_size()); }
  std::chrono::milliseconds time_limit() const override { return meeting_->time_limit(); }
  std::string host_of(int rank) const override;
  bool shares_addresses() const override { return true; }
  void exchange_places(const CollectiveCall& call, SendBlocks send, const TakePlace& take) override;
  void abort(const std::string& reason) override { meeting_->abort(rank_, reason); }

 private:
  void exchange(CollectiveCall call, SendBlocks send, Span<const Span<std::byte>> recv) override;
  void exchange_each(CollectiveCall call, SendBlocks send, const TakeBlock& take) override;
  std::unique_ptr<Communicator> make_group(const std::vector<int>& members,
                                           std::int64_t ticket) override;
  std::unique_ptr<SharedWindow> make_window(const std::vector<std::int64_t>& sizes) override;
  template <class Object>
  std::shared_ptr<Object> share(const std::shared_ptr<Object>& mine,
                                const std::vector<int>& members, Collective collective);

  std::shared_ptr<ThreadRendezvous> meeting_;
  int rank_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace zeroproof
