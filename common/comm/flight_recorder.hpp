#pragma once
// The last collectives of a process, readable by other processes: also after it stopped or died.

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
  std::int64_t sequence = 0;                ///< number of the call on its communicator
  std::int64_t num_bytes = 0;               ///< sent and received, over all ranks
  std::int64_t begun_ns = 0, ended_ns = 0;  ///< of a clock that all processes of a machine share
  std::int32_t channel = 0;                 ///< number of the communicator
  std::int32_t root = 0;
  Collective collective = Collective::barrier;
  IntegerReduce reduce = IntegerReduce::sum;
  State state = State::waiting;  ///< waiting: for other ranks to arrive; moving: all are there
};

/// Content of a recorder's file.
struct Flight {
  std::int64_t pid = 0;
  std::int64_t now_ns = 0;           ///< time of reading
  std::int64_t moved_ns = 0;         ///< time of the last change
  std::int64_t num_calls = 0;        ///< since the start
  std::string place;                 ///< activity of the process: a case, a step
  std::vector<FlightEntry> entries;  ///< the last ones, oldest first
};

/// Recorder of one of several ranks.
struct RankFlight {
  int rank = 0;
  Flight flight;
};

/// A ring of the last 64 collectives of a rank, in anonymous memory until it gets a file.
class FlightRecorder {
 public:
  static constexpr int num_kept = 64;

  FlightRecorder();
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// The recorder of all communicators of this process whose ranks are processes.
  static FlightRecorder& of_process();

  /// Moves the ring into a new file. False if it cannot be created; the ring then stays in memory.
  bool write_to(const std::string& path);

  void set_place(std::string_view place);

  /// Records a call and returns its number, for the other functions.
  std::int64_t begin(const CollectiveCall& call, int channel);
  void move(std::int64_t number) { set(number, FlightEntry::State::moving); }
  void end(std::int64_t number) { set(number, FlightEntry::State::done); }
  void fail(std::int64_t number) { set(number, FlightEntry::State::failed); }

  /// Current content. For a thread that runs while no collective is in progress, or that accepts a
  /// half-written entry.
  Flight read() const;

  struct Page;

 private:
  void set(std::int64_t number, FlightEntry::State state);

  const std::unique_ptr<Page> own_;
  std::atomic<Page*> page_;
};

/// Recorders of ranks that are threads of one process, for all its worlds.
struct FlightRecorders {
  explicit FlightRecorders(int num_ranks) : ranks(static_cast<std::size_t>(num_ranks)) {}

  std::deque<FlightRecorder> ranks;
  std::atomic<int> channels{0};  ///< communicators made so far
};

/// RAII scope of one collective: destroyed without end() means it failed. No-op without a recorder.
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

/// Reads the file of another process. Nothing if there is none, or if it is not a recorder's.
std::optional<Flight> read_flight(const std::string& path);

/// One line per collective, equal consecutive ones in one line; before them a line with rank,
/// process, activity and the time since the last change.
std::string flight_text(int rank, const Flight& flight);
std::string flights_text(const std::vector<RankFlight>& flights);

/// "waiting", "moving", "done" or "failed".
std::string_view name(FlightEntry::State state);

}  // namespace zeroproof
