// Formats, split masters and block scales of the host implementations, with every instruction set and with several threads.

#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/formats/block_support.hpp"
#include "tests/cuda/formats/formats_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: casts to 8 bits that do not saturate, and exponents of scales") {
  for (const Exec& exec : every_exec()) {
    check_nonfinite_by_hand(host::nonfinite_cast_to_e4m3, host::nonfinite_cast_to_e5m2, exec);
    check_e8m0(host::cast_to_e8m0, host::widen_e8m0, exec);
  }
  std::vector<float> three(3);
  std::vector<e8m0> four(4);
  expect_error(ErrorCode::invalid_argument, [&] { host::cast_to_e8m0({}, three, four); });
  expect_error(ErrorCode::invalid_argument, [&] { host::widen_e8m0({}, four, three); });
}

TEST_CASE("host: a master in two parts") {
  for (const Exec& exec : every_exec()) check_split(host::split_master, host::join_master, exec);
}

TEST_CASE("host: every upper half of a master, with remainders around the tie") {
  std::vector<float> master;
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      master.push_back(of_bits(upper << 16 | lower));
  }
  std::vector<bf16> param(master.size());
  std::vector<std::uint16_t> remainder(master.size());
  std::vector<float> joined(master.size());
  for (const Exec& exec : every_exec()) {
    for (const SplitRule rule : {SplitRule::nearest, SplitRule::transformer_engine}) {
      host::split_master(exec, rule, master, param, remainder);
      host::join_master(exec, rule, param, remainder, joined);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < master.size(); ++i) {
        const bool free = rule == SplitRule::nearest && std::isnan(master[i]);
        wrong += (free ? std::isnan(joined[i]) : to_bits(joined[i]) == to_bits(master[i])) ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("host: scales of the recipes") {
  for (const Exec& exec : every_exec()) {
    check_current(host::current_scales, exec);
    check_mxfp8(host::mxfp8_scales, exec);
    check_delayed(host::delayed_scales, exec);
  }
}

TEST_CASE("host: block scales") {
  const BlockImplementations implementations = {
      host::block_amax, host::block_quantize_e4m3, host::block_quantize_e5m2,
      host::block_dequantize_e4m3, host::block_dequantize_e5m2};
  for (const Exec& exec : every_exec()) {
    check_blocks_by_hand(exec, implementations);
    check_blocks_refused(exec, implementations);
    check_blocks(exec, implementations);
  }
}
