#include "cuda/comm/nccl_watch.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

namespace zeroproof::cuda {

namespace {

/// Most waits end within this time; afterwards a waiting rank should not occupy a core.
constexpr std::chrono::microseconds spinning{200};
constexpr std::chrono::microseconds longest_pause{500};

}  // namespace

NcclWatch::NcclWatch(const std::vector<Communicator*>& comms, std::chrono::milliseconds limit)
    : limit_(limit), begin_(std::chrono::steady_clock::now()) {
  for (Communicator* const comm : comms) {
    if (auto* const watched = dynamic_cast<WatchedCommunicator*>(comm)) comms_.push_back(watched);
  }
}

void NcclWatch::operator()() {
  for (WatchedCommunicator* const comm : comms_) comm->poll();
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin_);
  if (waited >= limit_) give_up();
  if (waited > spinning) std::this_thread::sleep_for(std::min(waited / 8, longest_pause));
}

/// This device must be idle before any rank is awaited: the awaited rank may wait for this device.
void NcclWatch::give_up() {
  std::vector<WatchedCommunicator*> hanging;
  for (WatchedCommunicator* const comm : comms_) {
    if (comm->under_way()) hanging.push_back(comm);
  }
  for (WatchedCommunicator* const comm : comms_) comm->stop();
  std::optional<NcclCause> cause;
  WatchedCommunicator* guilty = nullptr;
  for (WatchedCommunicator* const comm : hanging) {
    const NcclCause one = comm->cause(limit_);  // all of them: other ranks do the same
    if (cause && (cause->found || !one.found)) continue;
    cause = one;
    guilty = comm;
  }
  const Error reason =
      cause ? cause->error
            : Error(ErrorCode::timeout,
                    "the awaited work did not end within " + describe(limit_) +
                        " (no call between ranks is running, so the work itself hangs); check the "
                        "work of the device, or raise the time limit");
  Error reported = reason;
  for (WatchedCommunicator* const comm : comms_) {
    const Error error = comm->break_with(reason);
    if (comm == guilty) reported = error;
  }
  throw Error(reported);
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
