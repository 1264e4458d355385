#include "verification/training/ranks/rank_notes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "verification/cli/program/text_lines.hpp"
#include "verification/report/json_types.hpp"
#include "verification/training/ranks/job_folder.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace zeroproof::verification {
namespace {

std::string note_file(const std::string& folder, const char* what, int rank) {
  return folder + "/" + what + "." + std::to_string(rank);
}

/// Created by the process that started the job. A signal could reach ranks before they have
/// started.
std::string stop_file(const std::string& folder) { return folder + "/stop"; }

/// Notes that decide on a verdict: JobNotes::keep() names a file of each for every rank, in this
/// order.
constexpr std::array<std::string_view, 2> kept_notes = {"results", "flight"};

/// The position of a note among them; their number if it is none.
std::size_t kept_position(std::string_view what) {
  return std::find(kept_notes.begin(), kept_notes.end(), what) - kept_notes.begin();
}

/// The file of this rank in job_notes_variable; "" without it.
std::string own_kept_file(const char* what) {
  const char* files = std::getenv(job_notes_variable);
  const std::size_t position = kept_position(what);
  if (files == nullptr || position == kept_notes.size()) return "";
  std::istringstream list(files);
  std::string file;
  for (std::size_t i = 0; i <= mpi_job_rank() * kept_notes.size() + position; ++i) list >> file;
  return list ? file : "";
}

/// "" for a process that is no rank of a job with a folder.
std::string own_file(const char* what) {
  const char* folder = std::getenv(job_folder_variable);
  if (folder == nullptr || !started_by_zeroproof() || !inside_mpi_job()) return "";
  const std::string kept = own_kept_file(what);
  return kept.empty() ? note_file(folder, what, mpi_job_rank()) : kept;
}

/// A note that cannot be written must not end the run, nor a pipe in its place stop it.
void append(const char* what, const std::string& text) {
  const std::string path = own_file(what);
  if (path.empty()) return;
  const int in_folder = own_kept_file(what).empty() ? O_CREAT | O_NOFOLLOW : 0;
  const int file =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | in_folder, 0600);
  if (file < 0) return;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(file, text.data() + at, text.size() - at);
    if (count <= 0) break;
    at += static_cast<std::size_t>(count);
  }
  ::close(file);
}

}  // namespace

void RankNotes::started() { append("started", std::to_string(::getpid()) + "\n"); }

void RankNotes::joined() {
  append("joined", "");
  const std::string path = own_file("flight");
  if (!path.empty()) FlightRecorder::of_process().write_to(path);
}

void RankNotes::place(const std::string& what) { FlightRecorder::of_process().set_place(what); }

void RankNotes::finished(Span<const Result> results) {
  std::string lines;
  for (const Result& result : results) lines += to_json_value(result).dump() + "\n";
  append("results", lines);
}

void RankNotes::stopped() { append("stopped", ""); }

void RankNotes::ended(int code) { append("ended", std::to_string(code) + "\n"); }

bool RankNotes::asked_to_stop() {
  const char* folder = std::getenv(job_folder_variable);
  return folder != nullptr && ::access(stop_file(folder).c_str(), F_OK) == 0;
}

JobNotes::~JobNotes() {
  for (const int file : kept_) ::close(file);
}

std::string JobNotes::keep() {
  std::string files;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    for (std::size_t note = 0; note < kept_notes.size(); ++note) {
      kept_.push_back(::memfd_create("zeroproof-note", MFD_CLOEXEC));
      ZP_CHECK(kept_.back() >= 0, ErrorCode::io, "no memory for notes of an MPI job",
               "its ranks write their results there", "free some memory, and run again");
      files += "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(kept_.back()) + " ";
    }
  }
  return files;
}

std::string JobNotes::file(const char* what, int rank) const {
  const std::size_t position = kept_position(what);
  if (kept_.empty() || position == kept_notes.size()) return note_file(folder_, what, rank);
  return "/proc/self/fd/" + std::to_string(kept_.at(rank * kept_notes.size() + position));
}

std::vector<int> JobNotes::lacking(const char* what) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (::access(file(what, rank).c_str(), F_OK) != 0) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> JobNotes::not_started() const { return lacking("started"); }
std::vector<int> JobNotes::not_joined() const { return lacking("joined"); }

std::optional<std::int64_t> JobNotes::pid(int rank) const {
  const std::string text = content_of(file("started", rank));
  if (text.empty() || text.back() != '\n') return std::nullopt;
  return std::atoll(text.c_str());
}

void JobNotes::ask_to_stop() const {
  const int file =
      ::open(stop_file(folder_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  ZP_CHECK(file >= 0, ErrorCode::io, stop_file(folder_) + " cannot be made",
           "the ranks of the job stop when it exists", "set TMPDIR to a folder with free space");
  ::close(file);
}

bool JobNotes::stopped() const { return ::access(file("stopped", 0).c_str(), F_OK) == 0; }

std::optional<int> JobNotes::ended(int rank) const {
  const std::string path = file("ended", rank);
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  const std::string text = content_of(path);
  return text.empty() || text.back() != '\n' ? unknown_exit_code : std::atoi(text.c_str());
}

std::vector<Result> JobNotes::results() const {
  std::vector<Result> results;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    for (const std::string& line : lines_of(content_of(file("results", rank)))) {
      try {
        results.push_back(result_from(Json::parse(line)));
      } catch (const JsonError&) {
        break;  // its process ended during the write
      }
    }
  }
  return results;
}

std::uintmax_t JobNotes::result_bytes() const {
  std::uintmax_t sum = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file("results", rank), error);
    if (!error) sum += size;
  }
  return sum;
}

std::optional<Flight> JobNotes::flight(int rank) const { return read_flight(file("flight", rank)); }

std::int64_t JobNotes::moved_ns() const {
  std::int64_t last = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (const std::optional<Flight> there = flight(rank)) last = std::max(last, there->moved_ns);
  }
  return last;
}

std::vector<RankFlight> JobNotes::flights() const {
  std::vector<RankFlight> flights;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (std::optional<Flight> there = flight(rank)) flights.push_back({rank, std::move(*there)});
  }
  return flights;
}

}  // namespace zeroproof::verification
