// The split of a master, tensors in blocks and their scales, of every implementation, against the oracle.

#include <doctest.h>

#include <limits>

#include "oracle_format_operations.hpp"
#include "oracle_stream.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// What stands in amax, history and scale before a call.
std::uint32_t drawn(std::uint64_t i) {
  const PhiloxBlock w = words(Family::any_bits, i, 3);
  return w[0] % 3 == 0 ? 0
                       : std::bit_cast<std::uint32_t>(make_element(Family::special, w[1])[0]) & 0x7FFFFFFFU;
}

std::vector<std::uint32_t> drawn_words(std::size_t count, std::uint64_t first) {
  std::vector<std::uint32_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = drawn(first + i);
  return all;
}

}  // namespace

TEST_CASE("the oracle itself: overflow, exponents, splits and scales: numbers by hand") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float x[] = {464, 465, -inf, 448, 61439, 61440, -inf, 57344};
  std::uint8_t code[4] = {};
  oracle_cast_e4m3_nonfinite(x, code, 4);
  CHECK(code[0] == 0x7E);
  CHECK((code[1] & 0x7F) == 0x7F);
  CHECK((code[2] & 0x7F) == 0x7F);
  CHECK(code[3] == 0x7E);
  oracle_cast_e5m2_nonfinite(x + 4, code, 4);
  CHECK(std::vector<int>(code, code + 4) == std::vector<int>{0x7B, 0x7C, 0xFC, 0x7B});

  const float y[] = {1, 1.5F, 0x1p-127F, 0x1.8p-127F};
  oracle_cast_e8m0(y, code, 4);
  CHECK(std::vector<int>(code, code + 4) == std::vector<int>{127, 128, 0, 1});
  for (int c = 0; c < 255; ++c) {  // every code comes back
    const auto given = static_cast<std::uint8_t>(c);
    float wide = 0;
    oracle_widen_e8m0(&given, &wide, 1);
    oracle_cast_e8m0(&wide, code, 1);
    CHECK(code[0] == given);
  }

  std::uint16_t param = 0, remainder = 0;
  const float tie = from_bits(0x3F808000), nan = from_bits(0x7FFFFFFF);
  oracle_split_master(1, &tie, &param, &remainder, 1);
  CHECK((param == 0x3F81 && remainder == 0x8000));
  oracle_split_master(0, &nan, &param, &remainder, 1);
  CHECK((param == 0x8000 && remainder == 0xFFFF));

  const auto of = [](float amax) { return std::bit_cast<std::uint32_t>(amax); };
  const std::uint32_t amax[] = {of(7), 0, 1};
  float scale[3] = {}, scale_inv[3] = {};
  oracle_current_scales(0, 0, 0, amax, scale, scale_inv, 3);
  CHECK((scale[0] == 64 && scale[1] == 1 && scale[2] == std::numeric_limits<float>::max()));
  CHECK(scale_inv[0] == 0x1p-6F);
  oracle_mxfp8_scales(0, amax, code, scale, 3);
  CHECK((code[0] == 121 && scale[0] == 64));  // 7 / 448 is 2^-6
  std::uint32_t history[] = {of(2), of(4), of(1)};
  oracle_delayed_scale(0, 0, 3, 0, 0, history, scale, scale_inv);
  CHECK(scale[0] == 112);  // the 4 that leaves the window has counted
  CHECK((history[0] == 0 && history[1] == of(1) && history[2] == of(2)));
}

TEST_CASE("stream: split, join, quantize, dequantize, scales") {
  for (const Operation& op : format_operations()) stream(op, stream_length(ordinary_length / 4));
}

TEST_CASE("slow: stream: split, join, quantize, dequantize, scales") {
  for (const Operation& op : format_operations()) stream(op, stream_length(slow_length));
}

TEST_CASE("block amax: parts of every length, threads 1 to 3, onto something") {
  std::int64_t elements = 0, differ = 0;
  const std::vector<Twin> twins = twins_with(&Twin::block_amax);
  for (const std::int64_t numel : {0, 1, 2, 3, 31, 32, 33, 127, 128, 129, 1000, 4097, 70001}) {
    for (int set = 0; set < num_block_sets; ++set) {
      for (const Family family : {Family::any_bits, Family::special, Family::training}) {
        const BlockSet& s = block_sets[set];
        const BlockGrid grid = block_grid(set, numel);
        const oracle_grid g = plain(grid);
        std::vector<float> values(static_cast<std::size_t>(numel));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = make_element(family, 7 * i)[0];
        const auto before = drawn_words(static_cast<std::size_t>(grid.num_blocks()), 0);
        std::vector<std::uint32_t> want = before;
        oracle_block_amax(&g, s.value == QuantizedValue::through_bf16, s.first, values.data(), want.data(),
                          values.size());
        for (const Twin& twin : twins) {
          for (const int threads : {1, 2, 3}) {
            Exec exec = twin.exec;
            exec.num_threads = threads;
            std::vector<std::uint32_t> got = before;
            twin.block_amax(exec, grid, s.value, s.first, values, got);
            differ += want == got ? 0 : 1;
          }
        }
        elements += numel;
      }
    }
  }
  std::printf("block_amax: %lld elements x %zu implementations, %lld calls differ\n",
              static_cast<long long>(elements), twins.size(), static_cast<long long>(differ));
  CHECK(differ == 0);
}

TEST_CASE("delayed scales: every rule, histories 1 to 1024, over several steps") {
  std::int64_t differ = 0, scales = 0;
  const std::vector<Twin> twins = twins_with(&Twin::delayed_scales);
  std::uint64_t turn = 0;
  for (const std::int64_t history : {1, 2, 3, 7, 16, 1024}) {
    for (const AmaxChoice choice : {AmaxChoice::max, AmaxChoice::most_recent}) {
      for (const EmptyAmax empty : {EmptyAmax::keep, EmptyAmax::roll}) {
        for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) {
          for (const int margin : {0, 3, 64}) {
            const DelayedScaling options{format, margin, history, choice, empty};
            const std::size_t tensors = history > 100 ? 3 : 37;
            std::vector<std::uint32_t> window =
                drawn_words(tensors * static_cast<std::size_t>(history), turn += 9973);
            std::vector<float> scale(tensors, 3), scale_inv(tensors);
            for (int step = 0; step < 4; ++step) {
              for (std::size_t t = 0; t < tensors; ++t) {
                window[t * static_cast<std::size_t>(history)] =
                    drawn(turn + 31 * t + static_cast<std::size_t>(step));
              }
              const auto window_before = window;
              const auto scale_before = scale;
              for (std::size_t t = 0; t < tensors; ++t) {
                oracle_delayed_scale(format == Fp8::e5m2, margin, history, choice == AmaxChoice::most_recent,
                                     empty == EmptyAmax::roll,
                                     window.data() + t * static_cast<std::size_t>(history), &scale[t],
                                     &scale_inv[t]);
              }
              for (const Twin& twin : twins) {
                auto own_window = window_before;
                auto own_scale = scale_before;
                std::vector<float> own_inv(tensors);
                twin.delayed_scales(twin.exec, options, own_window, own_scale, own_inv);
                differ += own_window == window && own_scale == scale && own_inv == scale_inv ? 0 : 1;
              }
              scales += static_cast<std::int64_t>(tensors);
            }
          }
        }
      }
    }
  }
  std::printf("delayed_scales: %lld scales x %zu implementations, %lld calls differ\n",
              static_cast<long long>(scales), twins.size(), static_cast<long long>(differ));
  CHECK(differ == 0);
}
