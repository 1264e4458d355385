#include "common/comm/mpi_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/exchange_communicator.hpp"
#include "common/comm/flight_recorder.hpp"
#include "common/comm/mpi/mpi_blocks.hpp"
#include "common/comm/mpi/mpi_calls.hpp"
#include "common/comm/mpi/mpi_family.hpp"
#include "common/comm/mpi/mpi_native.hpp"
#include "common/comm/mpi/mpi_pause.hpp"
#include "common/comm/mpi/mpi_window.hpp"

namespace zeroproof {

namespace {

using Clock = std::chrono::steady_clock;

/// After the launcher's notice: time for messages of the living ranks to arrive, so that only the
/// dead one is named. Open MPI gives notice a second after the death, MPICH at once.
std::chrono::milliseconds term_grace() {
  return std::chrono::milliseconds(is_mpich() ? 1300 : 300);
}

/// Polls before the first sleep once all ranks are in a call and their blocks move: about 10 ms.
/// MPI moves a long block a little with every poll, and that is not reported as progress.
constexpr int looks_at_a_transfer = 10'000;

class MpiCommunicator final : public ExchangeCommunicator {
 public:
  struct Settings {
    std::chrono::milliseconds timeout;
    std::int64_t max_message_bytes;
  };

  /// The world if the channel is the family's own, else a group's.
  MpiCommunicator(std::shared_ptr<MpiFamily> family, std::shared_ptr<MpiChannel> channel,
                  Settings settings)
      : family_(std::move(family)),
        channel_(std::move(channel)),
        settings_(settings),
        names_(MpiFamily::names(transport().in_world(), is_group())),
        native_(transport().in_world(), transport().library_tag()),
        blocks_(transport(), static_cast<std::size_t>(settings.max_message_bytes)) {}

  ~MpiCommunicator() override;

  int rank() const override { return transport().rank(); }
  int world_size() const override { return transport().world_size(); }
  std::string name() const override { return "mpi:" + std::to_string(world_size()); }
  std::chrono::milliseconds time_limit() const override { return settings_.timeout; }
  std::string host_of(int rank) const override {
    return mpi_process_state().hosts.at(transport().in_world(rank));
  }

  void abort(const std::string& reason) override {
    if (!family_->failure().get()) break_with(ended_error(rank(), reason, names_), true);
  }

 private:
  void exchange(CollectiveCall call, SendBlocks send, Span<const Span<std::byte>> recv) override;
  void reduce_scatter(CollectiveCall call, Span<const float> send, Span<const std::int64_t> counts,
                      Span<float> recv) override;
  std::int64_t next_ticket() override { return mpi_process_state().group_tickets; }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& members,
                                           std::int64_t ticket) override;
  std::unique_ptr<SharedWindow> make_window(const std::vector<std::int64_t>& sizes) override;

  void begin(CollectiveCall& call);
  void complete(const CollectiveCall& call);
  template <class Missing>
  void wait(const CollectiveCall& call, const char* what, std::chrono::milliseconds limit,
            Pause pause, const Missing& missing);
  template <class Missing>
  std::vector<int> awaited(const Missing& missing) const;
  std::vector<int> blamed(const std::vector<int>& missing) const;
  Error break_with(const Error& error, bool tell);
  void end_transfers();

  bool is_group() const { return channel_ != family_->world(); }
  MpiTransport& transport() const { return channel_->transport; }
  MpiMailbox& mailbox() const { return channel_->mailbox; }

  const std::shared_ptr<MpiFamily> family_;
  const std::shared_ptr<MpiChannel> channel_;
  const Settings settings_;
  const RankNames names_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  MpiNative native_;
  MpiBlocks blocks_;
  std::int64_t num_calls_ = 0;
  std::int64_t num_completed_ = 0;
  std::int64_t noted_ = -1;  ///< number of the current call in the flight recorder
  bool transfers_ended_ = false;
};

/// A group destroyed by an exception sends nothing: the handler of the exception reports it to the
/// world.
MpiCommunicator::~MpiCommunicator() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  if (unwinding && !is_group()) abort("an exception ended its work");
  if (unwinding || family_->failure().get()) {
    end_transfers();
    return;
  }
  try {
    MpiMessage message;
    message.kind = MpiMessage::Kind::left;
    mailbox().post(message);
    CollectiveCall end;
    end.sequence = num_calls_ + 1;
    // Waits for the others, as MPI_Finalize would, so that no message is in transit when MPI ends.
    // A rank that still calls a collective receives the message that this one left, and fails.
    // After a failure some may never arrive.
    const std::chrono::milliseconds limit =
        mpi_process_state().broken ? settings_.timeout
                                   : std::chrono::milliseconds(std::chrono::hours(24 * 365));
    wait(end, "arrive at", limit, Pause(),
         [&](int peer) { return !mailbox().left(peer) && !mailbox().has_call(peer); });
    native_.free();
  } catch (const std::exception&) {
    // wait() has recorded it; a destructor cannot do more.
  }
  end_transfers();
}

void MpiCommunicator::exchange(CollectiveCall call, SendBlocks send,
                               Span<const Span<std::byte>> recv) {
  begin(call);
  blocks_.start(send, recv);
  wait(call, "finish", settings_.timeout, Pause(looks_at_a_transfer),
       [&](int peer) { return !blocks_.complete(peer); });
  complete(call);
}

void MpiCommunicator::complete(const CollectiveCall& call) {
  num_completed_ = call.sequence;
  FlightRecorder::of_process().end(noted_);
  noted_ = -1;
}

/// Returns when all ranks are in the same call.
void MpiCommunicator::begin(CollectiveCall& call) {
  if (const std::optional<Error> failure = family_->failure().get()) throw Error(*failure);
  call.sequence = ++num_calls_;
  noted_ = FlightRecorder::of_process().begin(call, transport().channel());
  MpiMessage message;
  message.call = call;
  mailbox().post(message);
  wait(call, "arrive at", settings_.timeout, Pause(), [&](int peer) {
    if (mailbox().has_call(peer)) return false;
    if (mailbox().left(peer)) throw left_error(std::vector<int>{peer}, call, names_);
    return true;
  });
  std::vector<CollectiveCall> calls(world_size());
  for (int peer = 0; peer < world_size(); ++peer) {
    calls[peer] = peer == rank() ? call : mailbox().take_call(peer);
  }
  const std::string problem = disagreement(calls, names_);
  if (problem.empty()) return FlightRecorder::of_process().move(noted_);
  // Every rank that has all calls computes the same text: ranks of the world need no message.
  throw break_with(Error(ErrorCode::comm, problem), is_group());
}

/// The library's call cannot be cancelled while it waits, so all ranks meet first, and MpiNative
/// ends the process if the call does not return.
void MpiCommunicator::reduce_scatter(CollectiveCall call, Span<const float> send,
                                     Span<const std::int64_t> counts, Span<float> recv) {
  begin(call);
  try {
    native_.reduce_scatter(send, counts, recv, settings_.max_message_bytes,
                           {describe(call), settings_.timeout});
  } catch (const Error& error) {
    throw break_with(error, true);
  }
  complete(call);
}

std::unique_ptr<Communicator> MpiCommunicator::make_group(const std::vector<int>& members,
                                                          std::int64_t ticket) {
  mpi_process_state().group_tickets = ticket + 1;
  std::vector<int> in_world;
  for (const int member : members) in_world.push_back(transport().in_world(member));
  auto channel = std::make_shared<MpiChannel>(MpiTransport(std::move(in_world), ticket));
  return std::make_unique<MpiCommunicator>(family_, std::move(channel), settings_);
}

std::unique_ptr<SharedWindow> MpiCommunicator::make_window(const std::vector<std::int64_t>& sizes) {
  const BlockingLimit limit{"shared_window", settings_.timeout};
  try {
    std::array<std::uint64_t, 1> far = {native_.all_share_memory(limit) ? std::uint64_t{0} : 1};
    all_reduce(far, IntegerReduce::max);
    if (far[0] != 0) return nullptr;
    auto window = make_mpi_window(native_, sizes, *this, limit);
    window->fence();
    return window;
  } catch (const Error& error) {
    abort(error.what());
    throw;
  }
}

template <class Missing>
std::vector<int> MpiCommunicator::awaited(const Missing& missing) const {
  std::vector<int> ranks;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank() && (missing(peer) || !mailbox().posted(peer))) ranks.push_back(peer);
  }
  return ranks;
}

/// Makes progress until no other rank is missing(rank). Fails if nothing moves for the time limit, if another
/// rank reports a failure, if MPI does, or if missing() throws. Where all that are missing wait in other
/// communicators, their own limits will name the cause; if they wait for each other, twice the limit
/// ends it.
template <class Missing>
void MpiCommunicator::wait(const CollectiveCall& call, const char* what,
                           std::chrono::milliseconds limit, Pause pause, const Missing& missing) {
  Clock::time_point moved_at = Clock::now();
  std::optional<Clock::time_point> term_at;
  std::int64_t news = mailbox().progress();
  bool sent_waiting = false;
  try {
    while (true) {
      family_->world()->mailbox.progress();
      const std::int64_t news_now = mailbox().progress();
      const bool moved = blocks_.progress() || news_now != news;
      news = news_now;
      const std::vector<int> ranks = awaited(missing);
      // Before the success: a rank that arrives too late finds the calls of all others in its
      // mailbox, and then their failure in that call.
      if (family_->failure_for(transport().channel(), call.sequence)) break;
      if (sent_waiting && (moved || ranks.empty())) {
        family_->post(MpiMessage::Kind::resumed);
        sent_waiting = false;
        continue;
      }
      if (ranks.empty()) return;
      const Clock::time_point now = Clock::now();
      if (moved) moved_at = now;
      if (mpi_end_requested() && !term_at) term_at = now;
      if (!sent_waiting && !moved && (term_at || now > moved_at + limit / 2)) {
        family_->post(MpiMessage::Kind::waiting);
        sent_waiting = true;
      }
      const std::vector<int> to_blame = blamed(ranks);
      if (term_at && now > *term_at + term_grace())
        throw interrupted_error(to_blame.empty() ? ranks : to_blame, call, names_);
      if (now > moved_at + (to_blame.empty() ? 2 * limit : limit))
        throw absent_error(to_blame.empty() ? ranks : to_blame, call, limit, names_, what);
      if (moved) {
        pause.reset();
      } else {
        pause();
      }
    }
  } catch (const Error& error) {
    throw break_with(error, true);
  }
  throw break_with(*family_->failure_for(transport().channel(), call.sequence), false);
}

/// Of the missing ranks, those that do not wait themselves: they delay the others.
std::vector<int> MpiCommunicator::blamed(const std::vector<int>& missing) const {
  std::vector<int> result;
  for (const int peer : missing) {
    if (!family_->world()->mailbox.waiting(transport().in_world(peer))) result.push_back(peer);
  }
  return result;
}

/// Ends this communicator and returns the first error. No MPI call may follow that could still
/// write into a buffer of the failed call.
Error MpiCommunicator::break_with(const Error& error, bool tell) {
  const Error first = family_->failure().keep(error);
  mpi_process_state().broken = true;
  if (noted_ >= 0) FlightRecorder::of_process().fail(noted_);
  noted_ = -1;
  if (tell) family_->tell(first, transport().channel(), num_completed_);
  end_transfers();
  return first;
}

void MpiCommunicator::end_transfers() {
  if (transfers_ended_) return;
  transfers_ended_ = true;
  mailbox().close();
  if (!transport().abandon()) mpi_process_state().memory_in_use = true;
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds timeout,
                                                    std::int64_t max_message_bytes) {
  ZP_CHECK(max_message_bytes >= 1 && max_message_bytes <= std::numeric_limits<int>::max(),
           ErrorCode::invalid_argument, "max_message_bytes is " + std::to_string(max_message_bytes),
           "MPI counts are positive int", "use 1 to 2147483647");
  auto family = std::make_shared<MpiFamily>();
  auto channel = family->world();
  return std::make_unique<MpiCommunicator>(std::move(family), std::move(channel),
                                           MpiCommunicator::Settings{timeout, max_message_bytes});
}

}  // namespace zeroproof
