#include "verification/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace zeroproof::verification {
namespace {

bool set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_terminal(int file_descriptor) {
  const char* term = std::getenv("TERM");
  return ::isatty(file_descriptor) != 0 && (term == nullptr || std::string(term) != "dumb");
}

}  // namespace

bool wants_colour(int file_descriptor) { return is_terminal(file_descriptor) && !set("NO_COLOR"); }

ProgressBar::ProgressBar()
    : visible_(is_terminal(STDERR_FILENO) && !set("CI")),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double fraction, const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || (drawn_ && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  drawn_ = true;
  constexpr int width = 30;
  const int filled = std::clamp(static_cast<int>(fraction * width), 0, width);
  std::string bar(static_cast<std::size_t>(filled), '#');
  bar.resize(width, '.');
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  std::fprintf(stderr, "\r\033[K[%s] %3d %%  %3llds  %.40s", bar.c_str(), static_cast<int>(fraction * 100),
               static_cast<long long>(seconds), what.c_str());
  std::fflush(stderr);
}

}  // namespace zeroproof::verification
