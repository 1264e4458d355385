#include "common/comm/flight_recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>

namespace zeroproof {

/// Plain memory: another process may read it at any moment, and at worst reads a half-written
/// entry.
struct FlightRecorder::Page {
  static constexpr std::uint64_t magic_word = 0x7a70666c69670001U;  // changes with the layout below
  std::uint64_t magic = magic_word;
  std::int64_t pid = 0;
  std::atomic<std::int64_t> moved_ns = 0;
  std::atomic<std::int64_t> num_calls = 0;
  std::array<char, 240> place{};
  std::array<FlightEntry, num_kept> entries{};
};

namespace {

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

FlightEntry& entry_of(FlightRecorder::Page& page, std::int64_t number) {
  return page.entries[number % FlightRecorder::num_kept];
}

std::string seconds(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

bool same_entry(const FlightEntry& a, const FlightEntry& b) {
  return a.collective == b.collective && a.num_bytes == b.num_bytes && a.channel == b.channel &&
         a.state == b.state && a.reduce == b.reduce && a.root == b.root;
}

Flight flight_of(const FlightRecorder::Page& page) {
  Flight flight;
  flight.pid = page.pid;
  flight.now_ns = now_ns();
  flight.moved_ns = page.moved_ns;
  flight.num_calls = page.num_calls;
  flight.place.assign(page.place.data(), ::strnlen(page.place.data(), page.place.size()));
  for (std::int64_t i = std::max<std::int64_t>(0, flight.num_calls - FlightRecorder::num_kept);
       i < flight.num_calls; ++i) {
    const FlightEntry& entry = page.entries[i % FlightRecorder::num_kept];
    if (static_cast<int>(entry.collective) >= num_collectives) continue;  // half written
    flight.entries.push_back(entry);
  }
  return flight;
}

const char* word(FlightEntry::State state) {
  switch (state) {
    case FlightEntry::State::waiting:
      return "waits for other ranks";
    case FlightEntry::State::moving:
      return "moves data";
    case FlightEntry::State::failed:
      return "failed";
    case FlightEntry::State::done:
      break;
  }
  return "done";
}

}  // namespace

FlightRecorder::FlightRecorder() : own_(std::make_unique<Page>()), page_(own_.get()) {
  own_->pid = ::getpid();
}
FlightRecorder::~FlightRecorder() = default;

FlightRecorder& FlightRecorder::of_process() {
  static FlightRecorder recorder;
  return recorder;
}

bool FlightRecorder::write_to(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  void* memory = MAP_FAILED;
  // Allocates the blocks: a store into a hole of a mapped file on a full disk would end the process
  // (SIGBUS).
  if (::posix_fallocate(file, 0, sizeof(Page)) == 0)
    memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return false;
  auto* const page = new (memory) Page;
  page->pid = ::getpid();
  page->moved_ns = now_ns();
  page_ = page;
  return true;
}

void FlightRecorder::set_place(std::string_view place) {
  Page& page = *page_;
  const std::size_t length = std::min(place.size(), page.place.size() - 1);
  std::memcpy(page.place.data(), place.data(), length);
  std::memset(page.place.data() + length, 0, page.place.size() - length);
  page.moved_ns = now_ns();
}

std::int64_t FlightRecorder::begin(const CollectiveCall& call, int channel) {
  Page& page = *page_;
  const std::int64_t number = page.num_calls++;
  FlightEntry& entry = entry_of(page, number);
  entry.sequence = call.sequence;
  entry.num_bytes =
      std::accumulate(call.send_bytes.begin(), call.send_bytes.end(), std::int64_t{0}) +
      std::accumulate(call.recv_bytes.begin(), call.recv_bytes.end(), std::int64_t{0});
  entry.channel = channel;
  entry.root = call.root;
  entry.collective = call.collective;
  entry.reduce = call.reduce;
  entry.begun_ns = now_ns();
  entry.ended_ns = 0;
  entry.state = FlightEntry::State::waiting;
  page.moved_ns = entry.begun_ns;
  return number;
}

void FlightRecorder::set(std::int64_t number, FlightEntry::State state) {
  Page& page = *page_;
  FlightEntry& entry = entry_of(page, number);
  entry.state = state;
  entry.ended_ns = now_ns();
  page.moved_ns = entry.ended_ns;
}

Flight FlightRecorder::read() const { return flight_of(*page_); }

std::optional<Flight> read_flight(const std::string& path) {
  std::array<char, sizeof(FlightRecorder::Page)> bytes{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), bytes.size())) return std::nullopt;
  const auto& page = *reinterpret_cast<const FlightRecorder::Page*>(bytes.data());
  if (page.magic != FlightRecorder::Page::magic_word || page.num_calls < 0) return std::nullopt;
  return flight_of(page);
}

std::string flight_text(int rank, const Flight& flight) {
  std::string text =
      "rank " + std::to_string(rank) + " (process " + std::to_string(flight.pid) + ")" +
      (flight.place.empty() ? "" : " at " + flight.place) + ": " +
      (flight.num_calls == 0 ? "no collective"
                             : std::to_string(flight.num_calls) + " collectives, the last " +
                                   std::to_string(flight.entries.size())) +
      "; nothing moved for " + seconds(flight.now_ns - flight.moved_ns) + "\n";
  for (std::size_t i = 0; i < flight.entries.size();) {
    std::size_t next = i + 1;
    while (next < flight.entries.size() && same_entry(flight.entries[next], flight.entries[i]))
      ++next;
    const FlightEntry& entry = flight.entries[i];
    CollectiveCall call;
    call.collective = entry.collective;
    call.reduce = entry.reduce;
    call.root = entry.root;
    call.sequence = entry.sequence;
    text += "  " + describe(call);
    if (next - i > 1) text += " to #" + std::to_string(flight.entries[next - 1].sequence);
    text += " of communicator " + std::to_string(entry.channel) + ", " +
            std::to_string(entry.num_bytes) + " bytes";
    if (next - i > 1) text += " each";
    text += std::string(", ") + word(entry.state);
    if (entry.state != FlightEntry::State::done)
      text += ", since " + seconds(flight.now_ns - entry.begun_ns);
    text += "\n";
    i = next;
  }
  return text;
}

std::string flights_text(const std::vector<RankFlight>& flights) {
  std::string text;
  for (const RankFlight& of : flights) text += flight_text(of.rank, of.flight);
  return text;
}

std::string_view name(FlightEntry::State state) {
  constexpr std::array<std::string_view, 4> names = {"waiting", "moving", "done", "failed"};
  return names[static_cast<std::size_t>(state)];
}

}  // namespace zeroproof
