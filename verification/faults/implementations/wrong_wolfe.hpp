#pragma once
// The strong Wolfe search of R21 once more, with a place for a mistake.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace zeroproof::verification {

enum class WolfeMistake : std::uint8_t {
  none,
  signed_slope,       ///< a slope that is steep downhill counts as flat: its magnitude is forgotten
  bracket_not_moved,  ///< a trial that is too high does not become an end
  other_root  ///< the interpolation takes the root of the other sign: the maximum of the cubic
};

struct WolfeTrial {
  double t = 0, f = 0, s = 0;
  bool good = true;
  std::size_t number = 0;  ///< 0: the start; the caller's otherwise
};

struct WolfeSettings {
  double max_abs_d = 0, tolerance_change = 0;
  std::int64_t max_ls = 0;
  WolfeMistake mistake = WolfeMistake::none;
};

/// The trial that is taken, or the start. evaluate(t) makes the next one.
WolfeTrial wrong_wolfe(const WolfeTrial& start, double t, const WolfeSettings& settings,
                       const std::function<WolfeTrial(double t)>& evaluate);

}  // namespace zeroproof::verification
