#include "verification/report/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace zeroproof::verification {
namespace {

/// In a log: short enough that the next call comes within ten seconds.
constexpr std::chrono::milliseconds silence{8000};

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
    : ProgressBar(stderr, is_terminal(STDERR_FILENO) && !set("CI"), [] { return Clock::now(); }) {}

ProgressBar::ProgressBar(std::FILE* out, bool terminal, std::function<Clock::time_point()> now)
    : out_(out), terminal_(terminal), now_(std::move(now)), begin_(now_()), last_(begin_) {}

ProgressBar::~ProgressBar() {
  if (!drawn_) return;
  if (terminal_) {
    std::fputs("\r\033[K", out_);
  } else {
    std::fprintf(out_, "%sdone in %lld s\n", column_ > 0 ? " " : "",
                 static_cast<long long>(seconds()));
  }
  std::fflush(out_);
}

std::int64_t ProgressBar::seconds() const {
  return std::chrono::duration_cast<std::chrono::seconds>(now_() - begin_).count();
}

void ProgressBar::show(double fraction, const std::string& what) {
  const std::lock_guard lock(mutex_);
  say_held_back();
  const Clock::time_point now = now_();
  const bool first_bar = terminal_ && !drawn_;
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : silence;
  if (!first_bar && now - last_ < pause) return;
  last_ = now;
  if (terminal_) {
    draw_bar(fraction, what);
  } else {
    grow_line(fraction);
  }
  drawn_ = true;
  std::fflush(out_);
}

void ProgressBar::say(const std::vector<std::string>& lines) {
  const std::lock_guard lock(mutex_);
  const std::string when = "  (" + std::to_string(seconds()) + " s)";
  for (const std::string& line : lines) held_back_.push_back(line + when);
  say_held_back();
}

void ProgressBar::say_held_back() {
  if (held_back_.empty() || now_() - begin_ < silence) return;
  leave_line();
  for (const std::string& line : held_back_) std::fprintf(out_, "%s\n", line.c_str());
  held_back_.clear();
  std::fflush(out_);
}

/// Moves to the beginning of an empty line.
void ProgressBar::leave_line() {
  if (terminal_) {
    if (drawn_) std::fputs("\r\033[K", out_);
  } else if (column_ > 0) {
    std::fputs("\n", out_);
    column_ = 0;
  }
}

void ProgressBar::draw_bar(double fraction, const std::string& what) {
  constexpr int width = 30;
  const int filled = std::clamp(static_cast<int>(fraction * width), 0, width);
  std::string bar(filled, '#');
  bar.resize(width, '.');
  std::fprintf(out_, "\r\033[K[%s] %3d %%  %3llds  %.40s", bar.c_str(),
               static_cast<int>(fraction * 100), static_cast<long long>(seconds()), what.c_str());
}

void ProgressBar::grow_line(double fraction) {
  constexpr std::size_t columns = 98;
  std::string word = column_ > 0 ? " " : "comparing: ";
  word += std::to_string(static_cast<int>(fraction * 100)) + " %,";
  if (column_ + word.size() > columns) {
    std::fputs("\n   ", out_);
    column_ = 3;
  }
  std::fputs(word.c_str(), out_);
  column_ += word.size();
}

}  // namespace zeroproof::verification
