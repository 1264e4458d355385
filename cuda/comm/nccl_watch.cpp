#include "cuda/comm/nccl_watch.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

namespace zeroproof::cuda {

namespace {

/// Most waits are over by then; afterwards a waiting rank should not take a core from others.
constexpr std::chrono::microseconds spinning{200};
constexpr std::chrono::microseconds longest_pause{500};

}  // namespace

NcclWatch::NcclWatch(const std::vector<Communicator*>& comms, std::chrono::milliseconds limit)
    : limit_(limit), begin_(std::chrono::steady_clock::now()) {
  for (Communicator* const comm : comms) {
    if (auto* const watched = dynamic_cast<WatchedCommunicator*>(comm))
      comm_groups_.push_back(watched);
  }
}

void NcclWatch::operator()() {
  for (WatchedCommunicator* const comm_groups : comm_groups_) comm_groups->look();
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin_);
  if (waited >= limit_) give_up();
  if (waited > spinning) std::this_thread::sleep_for(std::min(waited / 8, longest_pause));
}

/// The device has to be free before anybody waits for another rank: that one may wait for this device.
void NcclWatch::give_up() {
  std::vector<WatchedCommunicator*> hanging;
  for (WatchedCommunicator* const comm_groups : comm_groups_) {
    if (comm_groups->under_way()) hanging.push_back(comm_groups);
  }
  for (WatchedCommunicator* const comm_groups : comm_groups_) comm_groups->stop();
  std::optional<NcclCause> cause;
  WatchedCommunicator* guilty = nullptr;
  for (WatchedCommunicator* const comm_groups : hanging) {
    const NcclCause one = comm_groups->cause(limit_);  // all of them: other ranks ask too
    if (cause && (cause->found || !one.found)) continue;
    cause = one;
    guilty = comm_groups;
  }
  const Error reason =
      cause ? cause->error
            : Error(ErrorCode::timeout,
                    "what was waited for did not come within " + describe(limit_) +
                        " (no call between ranks is under way, so the work itself hangs); see what "
                        "the device was given, or raise the time limit");
  Error told = reason;
  for (WatchedCommunicator* const comm_groups : comm_groups_) {
    const Error error = comm_groups->break_with(reason);
    if (comm_groups == guilty) told = error;
  }
  throw Error(told);
}

void wait_watched(const device::Event& event, const std::vector<Communicator*>& comms,
                  std::chrono::milliseconds limit) {
  device::wait_for_event(event, NcclWatch(comms, limit));
}

void wait_watched(const std::vector<Communicator*>& comms, std::chrono::milliseconds limit) {
  device::Event end;
  end.record();
  wait_watched(end, comms, limit);
}

bool wait_to_release(std::chrono::milliseconds limit) noexcept {
  try {
    device::Event end;
    end.record();
    device::wait_for_event(end, NcclWatch({}, limit));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace zeroproof::cuda
