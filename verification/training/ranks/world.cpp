#include "verification/training/ranks/world.hpp"

#include <utility>

#include "common/comm/hosted_communicator.hpp"
#include "common/comm/self.hpp"

namespace zeroproof::verification {
namespace {

class SelfWorld final : public World {
 public:
  int size() const override { return 1; }
  void run(const RankWork& work) override {
    work(0, {comms_[0].get(), comms_[1].get(), comms_[2].get()});
  }
  std::vector<RankReport> collect(std::vector<RankReport> local) override { return local; }

 private:
  std::array<std::unique_ptr<Communicator>, 3> comms_ = {
      make_self_communicator(), make_self_communicator(), make_self_communicator()};
};

/// The host of every rank; empty if there is one host.
std::vector<std::string> host_names(const WorldSpec& spec) {
  std::vector<std::string> names;
  for (std::size_t host = 0; host < spec.hosts.size(); ++host)
    names.insert(names.end(), static_cast<std::size_t>(spec.hosts[host]),
                 "host" + std::to_string(host));
  return names;
}

class ThreadsWorld final : public World {
 public:
  ThreadsWorld(const WorldSpec& spec, std::chrono::milliseconds timeout)
      : recorders_(std::make_shared<FlightRecorders>(spec.size)),
        reference_(spec.size, timeout, recorders_),
        candidate_(spec.size, timeout, recorders_),
        harness_(spec.size, timeout, recorders_) {
    const std::vector<std::string> hosts = host_names(spec);
    const auto on_its_host = [&](std::unique_ptr<Communicator> comm) {
      if (hosts.empty()) return comm;
      return std::unique_ptr<Communicator>(
          std::make_unique<HostedCommunicator>(std::move(comm), hosts));
    };
    for (int rank = 0; rank < spec.size; ++rank) {
      reference_comms_.push_back(on_its_host(reference_.communicator(rank)));
      candidate_comms_.push_back(on_its_host(candidate_.communicator(rank)));
      harness_comms_.push_back(harness_.communicator(rank));
    }
  }

  int size() const override { return harness_.world_size(); }

  void run(const RankWork& work) override {
    run_ranks(harness_, [&](Communicator& self) {
      const auto rank = static_cast<std::size_t>(self.rank());
      // Not `self`: it ends with this call, and rank pairs keep their communicators over many
      // calls.
      const RankComparison::Communicators comms{
          reference_comms_[rank].get(), candidate_comms_[rank].get(), harness_comms_[rank].get()};
      try {
        work(self.rank(), comms);
      } catch (const std::exception& error) {
        // run_ranks aborts the harness's communicator; ranks may also wait on these two.
        comms.reference->abort(error.what());
        comms.candidate->abort(error.what());
        throw;
      }
    });
  }

  std::vector<RankReport> collect(std::vector<RankReport> local) override { return local; }

  void set_place(int rank, const std::string& what) override {
    recorders_->ranks[rank].set_place(what);
  }

  std::vector<RankFlight> flights() const override {
    std::vector<RankFlight> flights;
    for (int rank = 0; rank < size(); ++rank)
      flights.push_back({rank, recorders_->ranks[rank].read()});
    return flights;
  }

 private:
  std::shared_ptr<FlightRecorders> recorders_;
  ThreadWorld reference_, candidate_, harness_;
  std::vector<std::unique_ptr<Communicator>> reference_comms_, candidate_comms_, harness_comms_;
};

}  // namespace

std::unique_ptr<World> make_local_world(const WorldSpec& spec, double timeout_s) {
  if (spec.kind == WorldSpec::Kind::self) return std::make_unique<SelfWorld>();
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(timeout_s * 1000));
  return std::make_unique<ThreadsWorld>(spec, timeout);
}

}  // namespace zeroproof::verification
