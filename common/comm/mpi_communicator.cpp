#include "common/comm/mpi_communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/exchange_communicator.hpp"
#include "common/comm/mpi_blocks.hpp"
#include "common/comm/mpi_mailbox.hpp"
#include "common/comm/mpi_message.hpp"
#include "common/comm/mpi_transport.hpp"

namespace zeroproof {

namespace {

using Clock = std::chrono::steady_clock;

/// After a SIGTERM: time for what the living ranks sent to arrive, so that only the dead one is named.
constexpr std::chrono::milliseconds term_grace{300};
/// For the MPI library to take over the text of a failure.
constexpr std::chrono::milliseconds last_words_limit{100};

/// Gives the processor away between looks, as there may be more ranks than cores. Sleeps only after about 10
/// ms without news: MPI moves a long block a little with every look, and that does not show.
class Pause {
 public:
  void reset() { count_ = 0; }
  void operator()() {
    if (++count_ < looks_before_sleep) return std::this_thread::yield();
    const int excess = (count_ - looks_before_sleep) / 4;
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + excess, 200)));
  }

 private:
  static constexpr int looks_before_sleep = 10'000;
  int count_ = 0;
};

class MpiCommunicator final : public ExchangeCommunicator {
 public:
  MpiCommunicator(std::chrono::milliseconds timeout, std::int64_t max_message_bytes)
      : timeout_(timeout),
        mailbox_(transport_),
        blocks_(transport_, static_cast<std::size_t>(max_message_bytes)) {}

  ~MpiCommunicator() override;

  int rank() const override { return transport_.rank(); }
  int world_size() const override { return transport_.world_size(); }
  std::string name() const override { return "mpi:" + std::to_string(world_size()); }

  void abort(const std::string& reason) override {
    if (!failure_) break_with(ended_error(rank(), reason), true);
  }

 private:
  void exchange(CollectiveCall call, Span<const Span<const std::byte>> send,
                Span<const Span<std::byte>> recv) override;
  void exchange_calls(const CollectiveCall& call);
  template <class Missing>
  void wait(const CollectiveCall& call, const char* what, std::chrono::milliseconds limit,
            const Missing& missing);
  void post(MpiMessage::Kind kind);
  std::vector<int> blamed(const std::vector<int>& missing) const;
  void break_with(const Error& error, bool tell);
  void tell_others(const Error& error);

  MpiTransport transport_;
  const std::chrono::milliseconds timeout_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  MpiMailbox mailbox_;
  MpiBlocks blocks_;
  std::int64_t num_calls_ = 0;
  std::int64_t num_completed_ = 0;
  std::optional<Error> failure_;
};

MpiCommunicator::~MpiCommunicator() {
  if (failure_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    abort("an exception ended its work");
    return;
  }
  try {
    post(MpiMessage::Kind::left);
    CollectiveCall end;
    end.sequence = num_calls_ + 1;
    // Waits for the others, as MPI_Finalize would, so that no message is under way when MPI ends. A rank that
    // still calls a collective hears that this one left, and fails.
    wait(end, "arrive at", std::chrono::hours(24 * 365),
         [&](int peer) { return !mailbox_.left(peer) && !mailbox_.has_call(peer); });
  } catch (const std::exception&) {
    return;  // noted by wait(); a destructor cannot do more
  }
  if (!transport_.abandon()) mpi_process_state().memory_in_use = true;
}

void MpiCommunicator::exchange(CollectiveCall call, Span<const Span<const std::byte>> send,
                               Span<const Span<std::byte>> recv) {
  if (failure_) throw Error(*failure_);
  call.sequence = ++num_calls_;
  exchange_calls(call);
  blocks_.start(send, recv);
  wait(call, "finish", timeout_, [&](int peer) { return !blocks_.complete(peer); });
  num_completed_ = call.sequence;
}

void MpiCommunicator::exchange_calls(const CollectiveCall& call) {
  MpiMessage message;
  message.call = call;
  mailbox_.post(message);
  wait(call, "arrive at", timeout_, [&](int peer) {
    if (mailbox_.has_call(peer)) return false;
    if (mailbox_.left(peer)) throw left_error(std::vector<int>{peer}, call);
    return true;
  });
  std::vector<CollectiveCall> calls(static_cast<std::size_t>(world_size()));
  for (int peer = 0; peer < world_size(); ++peer) {
    calls[static_cast<std::size_t>(peer)] = peer == rank() ? call : mailbox_.take_call(peer);
  }
  const std::string problem = disagreement(calls);
  if (problem.empty()) return;
  // Every rank has all calls and comes to the same text: nobody needs to be told.
  break_with(Error(ErrorCode::comm, problem), false);
  throw Error(*failure_);
}

/// Makes progress until no other rank is missing(rank). Fails if nothing moves for the time limit, if another
/// rank reports a failure, if MPI does, or if missing() throws.
template <class Missing>
void MpiCommunicator::wait(const CollectiveCall& call, const char* what, std::chrono::milliseconds limit,
                           const Missing& missing) {
  Clock::time_point moved_at = Clock::now();
  std::optional<Clock::time_point> term_at;
  bool told_waiting = false;
  Pause pause;
  try {
    while (true) {
      bool moved = mailbox_.progress();
      if (blocks_.progress()) moved = true;
      std::vector<int> ranks;
      for (int peer = 0; peer < world_size(); ++peer) {
        if (peer != rank() && (missing(peer) || !mailbox_.posted(peer))) ranks.push_back(peer);
      }
      // Before the success: a rank that comes too late finds everybody's call in its mailbox, and then their
      // failure in that call. A failure in a later call does not touch this one.
      if (mailbox_.failure() && mailbox_.calls_before_failure() < call.sequence) break;
      if (told_waiting && (moved || ranks.empty())) {
        post(MpiMessage::Kind::resumed);
        told_waiting = false;
        continue;
      }
      if (ranks.empty()) return;
      const Clock::time_point now = Clock::now();
      if (moved) moved_at = now;
      if (mpi_end_requested() && !term_at) term_at = now;
      if (!told_waiting && !moved && (term_at || now > moved_at + limit / 2)) {
        post(MpiMessage::Kind::waiting);
        told_waiting = true;
      }
      if (term_at && now > *term_at + term_grace) throw interrupted_error(blamed(ranks), call);
      if (now > moved_at + limit) throw absent_error(blamed(ranks), call, limit, what);
      if (moved) {
        pause.reset();
      } else {
        pause();
      }
    }
  } catch (const Error& error) {
    break_with(error, true);
    throw;
  }
  break_with(*mailbox_.failure(), false);
  throw Error(*failure_);
}

void MpiCommunicator::post(MpiMessage::Kind kind) {
  MpiMessage message;
  message.kind = kind;
  mailbox_.post(message);
}

/// Of the ranks waited for, those that do not wait themselves: they hold up the others.
std::vector<int> MpiCommunicator::blamed(const std::vector<int>& missing) const {
  std::vector<int> result;
  for (const int peer : missing) {
    if (!mailbox_.waiting(peer)) result.push_back(peer);
  }
  return result.empty() ? missing : result;
}

/// Ends this communicator. No MPI call may follow that could still write into a buffer of the call that
/// failed.
void MpiCommunicator::break_with(const Error& error, bool tell) {
  failure_ = error;
  mpi_process_state().broken = true;
  if (tell) tell_others(error);
  if (!transport_.abandon()) mpi_process_state().memory_in_use = true;
}

void MpiCommunicator::tell_others(const Error& error) {
  MpiMessage message;
  message.kind = MpiMessage::Kind::failure;
  message.call.sequence = num_completed_;
  message.code = error.code();
  message.text = error.what();
  try {
    const Clock::time_point deadline = Clock::now() + last_words_limit;
    mailbox_.post(message);
    for (int peer = 0; peer < world_size(); ++peer) {
      while (!mailbox_.posted(peer) && Clock::now() < deadline) {
        if (!mailbox_.progress()) std::this_thread::yield();
      }
    }
  } catch (const Error&) {
    // The first failure is the one to report.
  }
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds timeout,
                                                    std::int64_t max_message_bytes) {
  ZP_CHECK(max_message_bytes >= 1 && max_message_bytes <= std::numeric_limits<int>::max(),
           ErrorCode::invalid_argument, "max_message_bytes is " + std::to_string(max_message_bytes),
           "MPI counts are positive int", "use 1 to 2147483647");
  return std::make_unique<MpiCommunicator>(timeout, max_message_bytes);
}

}  // namespace zeroproof
