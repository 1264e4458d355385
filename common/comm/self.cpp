#include "common/comm/self.hpp"

#include <utility>

#include "common/comm/exchange_communicator.hpp"
#include "common/comm/failure_record.hpp"
#include "common/comm/local_host.hpp"
#include "common/comm/shared_blocks.hpp"

namespace zeroproof {

namespace {

class SelfCommunicator final : public ExchangeCommunicator {
 public:
  /// Groups of one world share its failure.
  SelfCommunicator(std::shared_ptr<FailureRecord> failure, bool is_group)
      : failure_(std::move(failure)) {
    if (is_group) names_.in_world = {0};
  }

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  std::string name() const override { return "self"; }
  std::string host_of(int) const override { return local_host(); }
  bool shares_addresses() const override { return true; }

  void exchange_places(const CollectiveCall& call, SendBlocks send,
                       const TakePlace& take) override {
    meet(call);
    take(0, send[0]);
  }

  void abort(const std::string& reason) override { failure_->keep(ended_error(0, reason, names_)); }

 private:
  void exchange(CollectiveCall call, SendBlocks send, Span<const Span<std::byte>> recv) override {
    meet(std::move(call));
    copy_block(send[0], recv[0]);
  }

  void meet(CollectiveCall call) {
    failure_->rethrow();
    call.sequence = ++calls_;
    const std::string problem = disagreement(Span<const CollectiveCall>(&call, 1), names_);
    if (!problem.empty()) throw failure_->keep(Error(ErrorCode::comm, problem));
  }

  std::unique_ptr<Communicator> make_group(const std::vector<int>&, std::int64_t) override {
    return std::make_unique<SelfCommunicator>(failure_, true);
  }

  std::unique_ptr<SharedWindow> make_window(const std::vector<std::int64_t>& sizes) override {
    return make_window_over(std::make_shared<SharedBlocks>(sizes), *this);
  }

  std::int64_t calls_ = 0;
  RankNames names_;
  std::shared_ptr<FailureRecord> failure_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>(std::make_shared<FailureRecord>(), false);
}

}  // namespace zeroproof
