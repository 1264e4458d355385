// Casts, split masters and scales of the host implementations against the reference, with every
// instruction set and with several threads.

#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/formats/block_support.hpp"
#include "tests/cuda/formats/formats_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;
namespace ref = zeroproof::reference;

TEST_CASE("host: casts, and exponents of scales") {
  for (const Exec& exec : every_exec()) {
    check_format(host::cast_to_bf16, host::widen_bf16, ref::cast_to_bf16, ref::widen_bf16, exec);
    check_format(host::cast_to_fp16, host::widen_fp16, ref::cast_to_fp16, ref::widen_fp16, exec);
    check_format(host::cast_to_e4m3, host::widen_e4m3, ref::cast_to_e4m3, ref::widen_e4m3, exec);
    check_format(host::cast_to_e5m2, host::widen_e5m2, ref::cast_to_e5m2, ref::widen_e5m2, exec);
    check_cast(host::nonfinite_cast_to_e4m3, ref::nonfinite_cast_to_e4m3, exec);
    check_cast(host::nonfinite_cast_to_e5m2, ref::nonfinite_cast_to_e5m2, exec);
    check_cast(host::cast_to_e8m0, ref::cast_to_e8m0, exec);
    check_cast(host::widen_e8m0, ref::widen_e8m0, exec);
    check_stochastic(host::stochastic_cast_to_bf16, exec);
  }
}

TEST_CASE("host: a master in two parts") {
  for (const Exec& exec : every_exec()) check_split(host::split_master, host::join_master, exec);
}

TEST_CASE("host: scales of the recipes") {
  const ScaleImplementations implementations{host::current_scales, host::mxfp8_scales,
                                             host::delayed_scales};
  for (const Exec& exec : every_exec()) {
    check_scales(implementations, exec);
    check_scales_refused(implementations, exec);
  }
}

TEST_CASE("host: block scales") {
  const BlockImplementations implementations = {
      host::block_amax, host::block_quantize_e4m3, host::block_quantize_e5m2,
      host::block_dequantize_e4m3, host::block_dequantize_e5m2};
  for (const Exec& exec : every_exec()) {
    check_blocks_refused(exec, implementations);
    check_blocks(exec, implementations);
  }
}
