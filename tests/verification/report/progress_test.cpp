#include "verification/report/progress.hpp"

#include <doctest.h>

#include <algorithm>
#include <sstream>

using zeroproof::verification::ProgressBar;

namespace {

/// The output of a bar while `work` uses it and advances the clock.
template <class Work>
std::string with_bar(bool terminal, const Work& work) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  ProgressBar::Clock::time_point now;
  {
    ProgressBar bar(file, terminal, [&] { return now; });
    work(bar, [&](double seconds) {
      now += std::chrono::milliseconds(static_cast<int>(1000 * seconds));
    });
  }
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

/// The output during `steps` times `seconds_each`.
std::string written(bool terminal, int steps, double seconds_each) {
  return with_bar(terminal, [&](ProgressBar& bar, const auto& pass) {
    for (int i = 1; i <= steps; ++i) {
      pass(seconds_each);
      bar.show(static_cast<double>(i) / steps, "step");
    }
  });
}

}  // namespace

TEST_CASE("progress: a log has no line for short commands, one per ten seconds for long ones") {
  CHECK(written(false, 7, 1) == "");
  CHECK(written(false, 10, 1) == "comparing: 80 %, done in 10 s\n");
  const std::string text = written(false, 1200, 1);
  CHECK(std::count(text.begin(), text.end(), '%') >= 120);
  std::istringstream lines(text);
  std::size_t widest = 0;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) widest = std::max(widest, line.size());
  CHECK(widest < 100);
  CHECK(count <= 12);
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find('\033') == std::string::npos);
}

TEST_CASE("progress: lasting lines are delayed for eight seconds, and are separate in a log") {
  const auto said = [](int seconds, bool terminal) {
    return with_bar(terminal, [&](ProgressBar& bar, const auto& pass) {
      bar.say({"one"});
      for (int second = 1; second <= seconds; ++second) {
        pass(1);
        if (second == 9) bar.say({"two", "three"});
        bar.show(second / 20.0, "step");
      }
    });
  };
  CHECK(said(7, false) == "");
  CHECK(said(8, false) == "one  (0 s)\ncomparing: 40 %, done in 8 s\n");
  CHECK(said(17, false) ==
        "one  (0 s)\ncomparing: 40 %,\ntwo  (9 s)\nthree  (9 s)\ncomparing: 80 %, done in 17 s\n");
  const std::string text = said(9, true);
  CHECK(text.find("\r\033[Kone  (0 s)\n\r\033[K[") != std::string::npos);
  CHECK(text.find("\r\033[Ktwo  (9 s)\nthree  (9 s)\n\r\033[K[") != std::string::npos);
}

TEST_CASE("progress: a terminal shows the bar at once, and it is erased at the end") {
  const std::string text = written(true, 3, 0.01);
  CHECK(text.find("\r\033[K[##########....................]  33 %") ==
        0);  // later calls came too early
  CHECK(std::count(text.begin(), text.end(), '%') == 1);
  CHECK(text.substr(text.size() - 4) == "\r\033[K");
}
