#include "common/base/fpenv.hpp"

#include <doctest.h>

#include <cfenv>
#include <string>
#include <thread>

#include "common/base/error.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fpenv_test {

using namespace zeroproof;

namespace {

struct Seen {
  bool ok = true;
  std::string problem;
  std::string thrown;  ///< "" if require_fp_environment let the thread pass
  bool right_code = false;
};

Seen look(const std::string& who) {
  Seen seen;
  seen.ok = fp_environment_ok();
  seen.problem = fp_environment_problem();
  try {
    require_fp_environment(who);
  } catch (const Error& error) {
    seen.thrown = error.what();
    seen.right_code = error.code() == ErrorCode::fp_environment;
  }
  return seen;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void check_clean(const Seen& seen) {
  CHECK(seen.ok);
  CHECK(seen.problem == "");
  CHECK(seen.thrown == "");
}

void check_reported(const Seen& seen, const std::string& who) {
  CAPTURE(seen.thrown);
  CHECK_FALSE(seen.ok);
  CHECK(seen.problem != "");
  CHECK(seen.right_code);
  CHECK(has(seen.thrown, who));
  CHECK(has(seen.thrown, seen.problem));
}

/// Changes the environment of a separate thread, checks, undoes the change and checks again.
template <class Change, class Undo>
Seen look_in_thread(const Change& change, const Undo& undo) {
  Seen changed;
  Seen restored;
  std::thread worker([&] {
    change();
    changed = look("host worker 7");
    undo();
    restored = look("host worker 7");
  });
  worker.join();
  check_clean(restored);
  check_clean(look("the unchanged thread"));
  return changed;
}

#if defined(__x86_64__)
/// With `set` switched on and `cleared` switched off in MXCSR.
Seen look_with_mxcsr(unsigned set, unsigned cleared) {
  const unsigned before = _mm_getcsr();
  return look_in_thread([=] { _mm_setcsr((before | set) & ~cleared); },
                        [=] { _mm_setcsr(before); });
}
#endif

}  // namespace

TEST_CASE("fpenv: the initial environment of a thread follows the contract") {
  check_clean(look("main"));
  check_clean(look_in_thread([] {}, [] {}));
}

TEST_CASE("fpenv: every other rounding mode is reported") {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    CAPTURE(mode);
    const Seen seen =
        look_in_thread([=] { std::fesetround(mode); }, [] { std::fesetround(FE_TONEAREST); });
    check_reported(seen, "host worker 7");
    CHECK(has(seen.problem, "round"));
    CHECK_FALSE(has(seen.problem, "zero is on"));
  }
}

#if defined(__x86_64__)
TEST_CASE("fpenv: flush-to-zero and denormals-are-zero are reported by name") {
  constexpr unsigned daz = 0x0040;
  constexpr unsigned ftz = 0x8000;
  const Seen only_ftz = look_with_mxcsr(ftz, 0);
  check_reported(only_ftz, "host worker 7");
  CHECK(only_ftz.problem == "flush-to-zero is on");
  const Seen only_daz = look_with_mxcsr(daz, 0);
  check_reported(only_daz, "host worker 7");
  CHECK(only_daz.problem == "denormals-are-zero is on");
  const Seen both = look_with_mxcsr(ftz | daz, 0);
  check_reported(both, "host worker 7");
  CHECK(both.problem == "flush-to-zero is on, denormals-are-zero is on");
}

TEST_CASE("fpenv: every unmasked exception is reported") {
  for (unsigned bit = 7; bit <= 12;
       ++bit) {  // invalid, denormal, divide by zero, overflow, underflow, inexact
    CAPTURE(bit);
    const Seen seen = look_with_mxcsr(0, 1U << bit);
    check_reported(seen, "host worker 7");
    CHECK(has(seen.problem, "trap"));
  }
}

TEST_CASE("fpenv: earlier exceptions are not a problem") {
  for (unsigned bit = 0; bit <= 5; ++bit) {  // the sticky flags of the same six exceptions
    CAPTURE(bit);
    check_clean(look_with_mxcsr(1U << bit, 0));
  }
}

TEST_CASE("fpenv: several problems at once are all reported") {
  const Seen seen = look_with_mxcsr(0x8040 | 0x2000, 1U << 7);
  check_reported(seen, "host worker 7");
  for (const char* part : {"flush-to-zero is on", "denormals-are-zero is on", "round", "trap"}) {
    CHECK(has(seen.problem, part));
  }
}
#endif

}  // namespace fpenv_test
