#include "verification/training/job_watch.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "common/comm/collective_call.hpp"

namespace zeroproof::verification {
namespace {

/// Between the start of mpirun and that of the last rank; a busy machine takes ten seconds.
constexpr double least_start_s = 20;
/// Ranks that wait for each other end within twice their limit.
constexpr double silent_more_s = 10;

std::string seconds(double s) {
  return zeroproof::describe(std::chrono::milliseconds(static_cast<std::int64_t>(s * 1000)));
}

/// As in /proc/PID/stat; 0 if there is no such process.
char state_of(std::int64_t pid) {
  const std::string text = content_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? '\0' : text[name_end + 2];
}

/// " at step 3 of ..., in all_gather #54"
std::string place_of(const Flight& flight) {
  std::string text = flight.place.empty() ? " before the first step" : " at " + flight.place;
  if (flight.entries.empty()) return text + ", before any collective";
  const FlightEntry& last = flight.entries.back();
  CollectiveCall call;
  call.collective = last.collective;
  call.reduce = last.reduce;
  call.root = last.root;
  call.sequence = last.sequence;
  return text + (last.state == FlightEntry::State::done ? ", after " : ", in ") +
         zeroproof::describe(call);
}

const char* have(const std::vector<int>& ranks) { return ranks.size() == 1 ? " has" : " have"; }

}  // namespace

JobWatch::JobWatch(const JobNotes& notes, double comm_timeout_s, bool here)
    : notes_(notes), timeout_s_(comm_timeout_s), here_(here) {}

JobState JobWatch::look() {
  if (here_) check_processes();
  if (!joined_) {
    check_start();
  } else if (here_) {
    check_silence();
  }
  return problem_.empty() ? JobState::runs : JobState::lost;
}

void JobWatch::check_start() {
  const std::vector<int> absent = notes_.not_joined();
  joined_ = absent.empty();
  const double limit = std::max(timeout_s_, least_start_s);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin_;
  if (joined_ || waited.count() < limit) return;
  // Ranks that never began delay the others. If all began, one of them is stuck in MPI's start,
  // and which one is unknown.
  const std::vector<int> unborn = notes_.not_started();
  const std::vector<int>& who = unborn.empty() ? absent : unborn;
  problem_ =
      describe_ranks(who) + have(who) +
      (unborn.empty() ? " not completed the start of MPI within " : " not begun to run within ") +
      seconds(limit) +
      " (the start of MPI waits for all ranks); check the output of mpirun, and whether " +
      "such a process is stopped, or raise --comm-timeout";
}

void JobWatch::check_processes() {
  std::vector<int> ended, stopped;
  std::map<int, std::string> places;  // read once: the notes may be gone when a process ends
  for (int rank = 0; rank < notes_.num_ranks(); ++rank) {
    // One rank has given up: later events belong to the end of the job, in which stopped ranks
    // continue.
    if (notes_.ended(rank).value_or(0) != 0) return;
    const std::optional<Flight> flight = notes_.flight(rank);
    const std::optional<std::int64_t> pid = flight ? flight->pid : notes_.pid(rank);
    if (!pid) continue;
    const char state = state_of(*pid);
    places.emplace(rank, flight ? place_of(*flight) : " in the start of MPI");
    if ((state == '\0' || state == 'Z' || state == 'X') && !notes_.ended(rank))
      ended.push_back(rank);
    if (state == 'T' || state == 't') stopped.push_back(rank);
  }
  if (lost_for_good_) return;
  lost_for_good_ = !ended.empty();
  // a rank that was stopped and did not continue
  if (lost_for_good_ && !lost_ranks_.empty()) return;
  lost_ranks_.clear();
  lost_ranks_hang_ = false;
  const std::vector<int>& who = ended.empty() ? stopped : ended;
  if (who.empty()) return;
  // If all ends are seen at once, the first one is unknown.
  if (static_cast<int>(who.size()) == notes_.num_ranks() && who.size() > 1) return;
  lost_ranks_ = describe_ranks(who) +
                (ended.empty() ? who.size() == 1 ? " is stopped" : " are stopped" : " ended");
  lost_ranks_ += places.at(who.front());
  lost_ranks_hang_ = ended.empty();
}

void JobWatch::check_silence() {
  const std::int64_t moved = notes_.moved_ns();
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  const std::chrono::duration<double> silent = now - std::chrono::nanoseconds(moved);
  const double limit = 2 * timeout_s_ + silent_more_s;
  if (moved == 0 || silent.count() < limit) return;
  problem_ = "no rank made progress for " + seconds(limit) +
             " (live ranks would have reported by then which rank they wait for); check what their "
             "processes are doing, or "
             "raise --comm-timeout";
}

}  // namespace zeroproof::verification
