#pragma once
// The last collectives of a process, where somebody else can read them: also of a process that is stopped or dead.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/comm/collective_call.hpp"

namespace zeroproof {

/// One collective of a process.
struct FlightEntry {
  enum class State : std::uint8_t { waiting, moving, done, failed };
  std::int64_t sequence = 0;                ///< of the call on its communicator
  std::int64_t num_bytes = 0;               ///< sent and received, over all ranks
  std::int64_t begun_ns = 0, ended_ns = 0;  ///< of a clock that all processes of a machine share
  std::int32_t channel = 0;                 ///< which communicator
  std::int32_t root = 0;
  Collective collective = Collective::barrier;
  IntegerReduce reduce = IntegerReduce::sum;
  State state = State::waiting;  ///< waiting: for other ranks to arrive; moving: all are there
};

/// What a file of a recorder holds.
struct Flight {
  std::int64_t pid = 0;
  std::int64_t now_ns = 0;           ///< when it was read
  std::int64_t moved_ns = 0;         ///< when something last happened
  std::int64_t num_calls = 0;        ///< all of them
  std::string place;                 ///< what the process was at: a case, a step
  std::vector<FlightEntry> entries;  ///< the last ones, oldest first
};

/// Of one of several ranks.
struct RankFlight {
  int rank = 0;
  Flight flight;
};

/// A ring of the last 64 collectives of a rank. It lies in memory of its own until it gets a file.
class FlightRecorder {
 public:
  static constexpr int num_kept = 64;

  FlightRecorder();
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// The one that all communicators of this process write to whose ranks are processes.
  static FlightRecorder& of_process();

  /// From now on in a file, which is made. False if it cannot be; the ring goes on without.
  bool write_to(const std::string& path);

  void set_place(std::string_view place);

  /// Notes a call and returns its number, for the others.
  std::int64_t begin(const CollectiveCall& call, int channel);
  void move(std::int64_t number) { set(number, FlightEntry::State::moving); }
  void end(std::int64_t number) { set(number, FlightEntry::State::done); }
  void fail(std::int64_t number) { set(number, FlightEntry::State::failed); }

  /// What it has now. For a thread that knows that no collective is under way, or does not mind half an entry.
  Flight read() const;

  struct Page;

 private:
  void set(std::int64_t number, FlightEntry::State state);

  const std::unique_ptr<Page> own_;
  std::atomic<Page*> page_;
};

/// Of ranks that are threads of one process, which have several worlds between them.
struct FlightRecorders {
  explicit FlightRecorders(int num_ranks) : ranks(static_cast<std::size_t>(num_ranks)) {}

  std::deque<FlightRecorder> ranks;
  std::atomic<int> channels{0};  ///< communicators made so far
};

/// A collective while it lasts: what is not told that it ended has failed. No recorder, no note.
class ScopedCallRecord {
 public:
  explicit ScopedCallRecord(FlightRecorder* recorder) : recorder_(recorder) {}
  ~ScopedCallRecord() {
    if (number_ >= 0) recorder_->fail(number_);
  }
  ScopedCallRecord(const ScopedCallRecord&) = delete;
  ScopedCallRecord& operator=(const ScopedCallRecord&) = delete;

  void begin(const CollectiveCall& call, int channel) {
    if (recorder_ != nullptr) number_ = recorder_->begin(call, channel);
  }
  void move() {
    if (number_ >= 0) recorder_->move(number_);
  }
  void end() {
    if (number_ >= 0) recorder_->end(number_);
    number_ = -1;
  }

 private:
  FlightRecorder* recorder_;
  std::int64_t number_ = -1;
};

/// What the file of another process says now. Nothing if there is none, or something else.
std::optional<Flight> read_flight(const std::string& path);

/// A line for every collective, equal ones that follow each other in one; and before them who it was, where, and since
/// when it has not moved.
std::string flight_text(int rank, const Flight& flight);
std::string flights_text(const std::vector<RankFlight>& flights);

/// "waiting", "moving", "done" or "failed".
std::string_view name(FlightEntry::State state);

}  // namespace zeroproof
