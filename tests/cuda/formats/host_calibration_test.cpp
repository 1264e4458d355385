// Host implementations of calibration and fake quantization against numbers by hand.

#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/formats/calibration_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: fake quantization by hand, and its errors") {
  for (const Exec& exec : every_exec()) {
    check_fake_quantize_by_hand(host::fake_quantize, host::quantize_integer, exec);
    check_fake_quantize_refusals(host::fake_quantize, host::quantize_integer, exec);
  }
}

TEST_CASE("host: bins by hand") {
  for (const Exec& exec : every_exec()) {
    check_histogram_by_hand(host::histogram_count, host::histogram_widen, exec);
  }
}

TEST_CASE("host: choices by counts and by errors, by hand") {
  check_exponent_by_hand(host::histogram_exponent);
  for (const Exec& exec : every_exec()) {
    check_amax_of_counts_by_hand(host::percentile_amax, host::entropy_amax, exec);
    check_clips_by_hand(host::clip_errors, host::clip_of_errors, host::grad_norm_finish, exec);
    check_smooth_by_hand(host::smooth_scales, exec);
  }
}
