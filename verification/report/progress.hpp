#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace zeroproof::verification {

/// True if colour may be written to this file descriptor: a terminal, and NO_COLOR is not set.
bool wants_colour(int file_descriptor);

/// Progress of a long command on standard error. On a terminal a bar, redrawn at most ten times a
/// second. In a pipe or a log one line that grows by a word at least every ten seconds, broken
/// before it has 100 columns; nothing for a command that takes less than that. Threads may call it
/// at the same time.
class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;

  ProgressBar();
  /// For tests: output, whether it is a terminal, and the clock.
  ProgressBar(std::FILE* out, bool terminal, std::function<Clock::time_point()> now);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// fraction in [0, 1].
  void show(double fraction, const std::string& what);

  /// Prints permanent lines with the elapsed seconds. They appear at once, except in the first
  /// eight seconds: those are held back, and dropped if the command ends before.
  void say(const std::vector<std::string>& lines);

 private:
  void say_held_back();
  void leave_line();
  void draw_bar(double fraction, const std::string& what);
  void grow_line(double fraction);
  std::int64_t seconds() const;

  std::mutex mutex_;
  std::FILE* out_;
  bool terminal_;
  std::function<Clock::time_point()> now_;
  bool drawn_ = false;
  std::size_t column_ = 0;
  std::vector<std::string> held_back_;
  Clock::time_point begin_, last_;
};

}  // namespace zeroproof::verification
