// Host twins of fake quantization and histograms against numbers by hand.

#include <doctest.h>

#include "cuda/host/fake_quantize.hpp"
#include "cuda/host/histogram.hpp"
#include "tests/cuda/calibration_support.hpp"
#include "tests/cuda/every_exec.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: fake quantization by hand, and what it refuses") {
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
