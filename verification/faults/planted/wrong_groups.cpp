#include "verification/faults/planted/wrong_groups.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/faults/planted/fault_context.hpp"
#include "verification/faults/planted/stale_windows.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t line = 128;  // bytes transferred together

/// The first 128 bytes that the last rank receives in an all-gather have a bit flipped.
class FlippedLine final : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;

  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    inner_.all_gather(mine, recv);
    if (rank() + 1 != world_size() || recv.front().size() < line) return;
    for (std::byte& byte : recv.front().first(line)) byte ^= std::byte{1};
  }
  std::unique_ptr<Communicator> split(int colour) override {
    return std::make_unique<FlippedLine>(inner_.split(colour));
  }
};

/// Of `calls` all-gathers of long messages the last one transfers nothing: every rank keeps its old
/// data.
class LastOneLost final : public WrappedCommunicator {
 public:
  LastOneLost(Communicator& inner, std::size_t calls) : WrappedCommunicator(inner), calls_(calls) {}

  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    if (recv.front().size() < line || ++call_ % calls_ != 0) return inner_.all_gather(mine, recv);
    std::vector<std::vector<std::byte>> lost;
    std::vector<Span<std::byte>> into;
    for (const Span<std::byte> place : recv) lost.emplace_back(place.size());
    for (std::vector<std::byte>& bytes : lost) into.emplace_back(bytes);
    inner_.all_gather(mine, into);
    const Span<std::byte> own = recv[rank()];
    if (mine.data() != own.data()) std::copy(mine.begin(), mine.end(), own.begin());
  }

 private:
  const std::size_t calls_;
  std::size_t call_ = 0;
};

/// An empty part counts as one byte: in a gather the part after it is placed one byte further.
class EmptyPartsCounted final : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;

  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    std::vector<Span<std::byte>> places(recv.begin(), recv.end());
    for (std::size_t part = 1; part < recv.size(); ++part) {
      if (recv[part - 1].empty() && !recv[part].empty())
        places[part] = {recv[part].data() + 1, recv[part].size()};
    }
    inner_.all_gather(mine, places);
  }
};

}  // namespace

std::unique_ptr<Communicator> wrong_communicator(std::string_view fault, Communicator& inner) {
  if (fault == "gather-counts-empty-parts") return std::make_unique<EmptyPartsCounted>(inner);
  return nullptr;
}

std::unique_ptr<Communicator> plant_transport(std::string_view fault, Communicator& inner) {
  if (fault != "transport-corrupts-a-line") return nullptr;
  return std::make_unique<FlippedLine>(inner);
}

bool connect_wrongly(std::string_view fault, FaultContext& context) {
  OptimizerSetup& setup = context.setup;
  const auto put = [&](Communicator*& group, std::unique_ptr<Communicator> wrong) {
    group = context.groups.emplace_back(std::move(wrong)).get();
    return true;
  };
  if (fault == "found-inf-not-global") {
    return put(setup.comm, std::make_unique<OwnWords>(*setup.comm, IntegerReduce::bitwise_or, 1));
  }
  if (fault == "found-inf-not-over-tp") {
    ZP_CHECK(setup.tp != nullptr, ErrorCode::unavailable,
             "the fault 'found-inf-not-over-tp' cannot be planted without TP",
             "it omits a reduction over TP ranks", "run it with TP ranks, as in --grid 1x2x1");
    return put(setup.tp, std::make_unique<OwnWords>(*setup.tp, IntegerReduce::bitwise_or, 1));
  }
  if (fault == "amax-not-over-tp") {
    ZP_CHECK(setup.tp != nullptr, ErrorCode::unavailable,
             "the fault 'amax-not-over-tp' cannot be planted without TP",
             "it omits a reduction over TP ranks", "run it with TP ranks, as in --grid 1x2x1");
    return put(setup.tp, std::make_unique<OwnMaxima>(*setup.tp));
  }
  if (fault == "state-amax-not-joined")
    return put(setup.comm, std::make_unique<OwnMaxima>(*setup.comm));
  if (fault == "transport-corrupts-a-line") return true;  // plant_transport() has planted it
  // The optimizer first queries support, then requests the memory of parameters, then that of
  // gradients.
  if (fault == "shard-read-before-its-fence")
    return put(setup.comm, std::make_unique<EarlyReader>(*setup.comm, 2));
  if (fault == "leaf-read-before-its-fence")
    return put(setup.comm, std::make_unique<EarlyReader>(*setup.comm, 3));
  if (fault == "last-bucket-not-gathered") {
    return put(setup.comm,
               std::make_unique<LastOneLost>(*setup.comm, setup.shards->buckets().size()));
  }
  return false;
}

}  // namespace zeroproof::verification
