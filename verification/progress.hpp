#pragma once

#include <chrono>
#include <string>

namespace zeroproof::verification {

/// True if colour may be written to this file descriptor: a terminal, and NO_COLOR is not set.
bool wants_colour(int file_descriptor);

/// A bar on the standard error of a terminal; silent in pipes and CI.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// fraction in [0, 1]; redrawn at most ten times a second.
  void show(double fraction, const std::string& what);

 private:
  bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace zeroproof::verification
