#include "common/base/fpenv.hpp"

#include "common/base/error.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#include <limits>
#endif

namespace zeroproof {

#if defined(__x86_64__)
namespace {

constexpr unsigned denormals_are_zero = 1U << 6;
constexpr unsigned exception_masks = 0x3FU << 7;
constexpr unsigned rounding = 3U << 13;
constexpr unsigned flush_to_zero = 1U << 15;

}  // namespace

bool fp_environment_ok() {
  const unsigned state = _mm_getcsr();
  return (state & (denormals_are_zero | rounding | flush_to_zero | exception_masks)) ==
         exception_masks;
}

std::string fp_environment_problem() {
  const unsigned state = _mm_getcsr();
  std::string text;
  const auto add = [&](bool wrong, const char* what) {
    if (wrong) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add((state & flush_to_zero) != 0, "flush-to-zero is on");
  add((state & denormals_are_zero) != 0, "denormals-are-zero is on");
  add((state & rounding) != 0, "rounding is not to nearest");
  add((state & exception_masks) != exception_masks, "floating-point exceptions trap");
  return text;
}
#else
std::string fp_environment_problem() {
  if (std::fegetround() != FE_TONEAREST) return "rounding is not to nearest";
  volatile float tiny = std::numeric_limits<float>::min();
  tiny = tiny * 0.5F;
  return tiny == 0.0F ? "subnormals are flushed to zero" : "";
}

bool fp_environment_ok() { return fp_environment_problem().empty(); }
#endif

void require_fp_environment(const std::string& who) {
  if (fp_environment_ok()) return;
  fail(ErrorCode::fp_environment, who + ": " + fp_environment_problem(),
       "results would leave the numeric contract, rule R3",
       "look for a library built with -Ofast or -ffast-math in this process, or code that sets "
       "MXCSR");
}

}  // namespace zeroproof
