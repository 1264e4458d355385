#pragma once
// Second implementation of the strong Wolfe search of R21, with a switch for each fault.

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

/// The accepted trial, or the start. evaluate(t) computes the next one.
WolfeTrial wrong_wolfe(const WolfeTrial& start, double t, const WolfeSettings& settings,
                       const std::function<WolfeTrial(double t)>& evaluate);

}  // namespace zeroproof::verification
