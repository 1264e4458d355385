// Calibration and fake quantization of the host implementations against the reference.

#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/formats/calibration_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: calibration and fake quantization, and their errors") {
  const CalibrationImplementations implementations{host::fake_quantize,      host::quantize_integer,
                                                   host::histogram_count,    host::histogram_widen,
                                                   host::histogram_exponent, host::percentile_amax,
                                                   host::entropy_amax,       host::clip_errors,
                                                   host::clip_of_errors,     host::smooth_scales};
  check_calibration(implementations, every_exec());
  for (const Exec& exec : every_exec()) check_calibration_refused(implementations, exec);
}
