// The split of a master, tensors in blocks and their scales, of every implementation, against the oracle.

#include <doctest.h>

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
