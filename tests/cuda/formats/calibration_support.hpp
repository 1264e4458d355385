#pragma once
// Calibration and fake quantization against the reference, for the implementations of the host and
// those of the device.

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

using device_test::Place;

struct CalibrationImplementations {
  FakeQuantizeFn* fake_quantize;
  QuantizeIntegerFn* quantize_integer;
  HistogramCountFn* histogram_count;
  HistogramWidenFn* histogram_widen;
  HistogramExponentFn* histogram_exponent;
  PercentileAmaxFn* percentile_amax;
  EntropyAmaxFn* entropy_amax;
  ClipErrorsFn* clip_errors;
  ClipOfErrorsFn* clip_of_errors;
  SmoothScalesFn* smooth_scales;
};

inline constexpr CalibrationImplementations reference_calibration{
    reference::fake_quantize,   reference::quantize_integer,   reference::histogram_count,
    reference::histogram_widen, reference::histogram_exponent, reference::percentile_amax,
    reference::entropy_amax,    reference::clip_errors,        reference::clip_of_errors,
    reference::smooth_scales};

/// Largest magnitudes of blocks: usual ones, and some that are tiny, infinite or NaN.
inline std::vector<std::uint32_t> amax_of_blocks(std::int64_t blocks) {
  std::vector<std::uint32_t> amax;
  for (std::int64_t b = 0; b < blocks; ++b) {
    constexpr std::uint32_t rare[] = {0, 0x33000000, 0x33800000, 0x7F800000, 0x7FFFFFFF};
    const std::uint32_t bits = device_test::hash(static_cast<std::uint64_t>(b), 3);
    amax.push_back(b % 8 == 7 ? rare[bits % 5] : 0x3E000000 + bits % 0x02000000);
  }
  return amax;
}

/// Results of all operations, integers as bits, one after another.
class Calibration {
 public:
  Calibration(const CalibrationImplementations& implementations, const Exec& exec)
      : f_(implementations), exec_(exec) {}

  std::vector<std::uint64_t> results;

  void run(std::int64_t numel) {
    std::vector<float> values(static_cast<std::size_t>(numel));
    device_test::fill(values, 2);
    const std::int64_t rows = numel / 7 + 1;
    for (const BlockGrid& grid :
         {one_block(rows, 7), BlockGrid{rows, 7, 3, 2}, BlockGrid{rows, 7, rows, 1}}) {
      const std::vector<std::uint32_t> amax = amax_of_blocks(grid.num_blocks());
      for (const FakeQuantization& options :
           {FakeQuantization{grid}, FakeQuantization{grid, FakeFormat::integer, 2, false},
            FakeQuantization{grid, FakeFormat::e4m3}, FakeQuantization{grid, FakeFormat::e5m2}}) {
        std::vector<float> target(values.size());
        f_.fake_quantize(exec_, options, 3, values, amax, target);
        add(target);
      }
      std::vector<std::int8_t> codes(values.size());
      f_.quantize_integer(exec_, {grid, FakeFormat::integer, 8, false}, 3, values, amax, codes);
      results.insert(results.end(), codes.begin(), codes.end());
      std::vector<NormLimbs> errors(amax.size() * num_clips);
      for (NormLimbs& limbs : errors) limbs.limbs[9] = ~std::uint64_t{0};  // full
      f_.clip_errors(exec_, {grid, FakeFormat::integer, 4}, 3, values, amax, errors);
      add(errors);
      std::vector<std::uint32_t> clipped(amax.size());
      f_.clip_of_errors(amax, errors, clipped);
      results.insert(results.end(), clipped.begin(), clipped.end());
      std::vector<float> scale(amax.size());
      for (const double alpha : {0.0, 0.5, 1.0}) {
        std::vector<std::uint32_t> weights(amax.rbegin(), amax.rend());
        f_.smooth_scales(exec_, alpha, amax, weights, scale);
        add(scale);
      }
    }
    for (const HistogramEnd end : {HistogramEnd::open, HistogramEnd::closed}) {
      std::vector<std::uint64_t> count(1000 + histogram_extra, 1);
      f_.histogram_count(exec_, 0x1p-10F, end, values, count);
      results.insert(results.end(), count.begin(), count.end());
      f_.histogram_widen(exec_, 1, count);
      results.insert(results.end(), count.begin(), count.end());
      count.resize(1000);
      for (const double percentile : {0.0, 50.0, 99.0, 99.99, 100.0})
        add(std::vector<float>{f_.percentile_amax(count, 0.5F, percentile)});
      add(std::vector<float>{f_.entropy_amax(exec_, count, 0.5F, 8)});
    }
    for (const std::uint32_t amax : {0U, 255U, 256U, 0x3F7FFFFFU, 0x3F800000U, 0x7F7FFFFFU})
      results.push_back(static_cast<std::uint64_t>(f_.histogram_exponent(amax, 2048)));
  }

 private:
  void add(const std::vector<float>& values) {
    for (const float x : values)
      results.push_back(std::isnan(x) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(x));
  }
  void add(const std::vector<NormLimbs>& errors) {
    for (NormLimbs limbs : errors) {
      reference::grad_norm_normalise(limbs);
      results.insert(results.end(), limbs.limbs.begin(), limbs.limbs.end());
      results.insert(results.end(), {limbs.nan_count, limbs.inf_count});
    }
  }

  const CalibrationImplementations& f_;
  const Exec exec_;
};

inline void check_calibration(const CalibrationImplementations& implementations,
                              const std::vector<Exec>& execs) {
  for (const std::int64_t numel : {0, 1, 700, 20003}) {
    CAPTURE(numel);
    Calibration want(reference_calibration, {});
    want.run(numel);
    for (const Exec& exec : execs) {
      Calibration got(implementations, exec);
      got.run(numel);
      CHECK(got.results == want.results);
    }
  }
}

/// More values than a device has threads, in few bins and blocks.
inline void check_many_values(const CalibrationImplementations& implementations, const Exec& exec) {
  std::vector<float> values(700001, 3.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 350003 > 200000) values[i] = 1.0F;
  }
  std::vector<std::uint64_t> count(300 + histogram_extra), want_count = count;
  implementations.histogram_count(exec, 0.01F, HistogramEnd::open, values, count);
  reference::histogram_count({}, 0.01F, HistogramEnd::open, values, want_count);
  CHECK(count == want_count);
  const FakeQuantization options{{20000, 2, 20000, 1}, FakeFormat::integer, 2};
  const std::vector<std::uint32_t> amax{0x40800000, 0x41000000};  // 4 and 8
  std::vector<NormLimbs> errors(2 * num_clips), want = errors;
  implementations.clip_errors(exec, options, 0, {values.data(), 40000}, amax, errors);
  reference::clip_errors({}, options, 0, {values.data(), 40000}, amax, want);
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(reference::grad_norm_finish(errors[i]) == reference::grad_norm_finish(want[i]));
}

inline void check_calibration_refused(const CalibrationImplementations& implementations,
                                      const Exec& exec) {
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  const auto& f = implementations;
  const std::vector<float> values = {1, 2};
  const std::vector<std::uint32_t> amax(1, 0x3F800000);
  std::vector<float> target = {7, 7};
  std::vector<std::int8_t> codes = {7, 7};
  FakeQuantization options{one_block(1, 2)};
  refused([&] { f.fake_quantize(exec, options, 1, values, amax, target); });
  refused([&] { f.fake_quantize(exec, options, 0, values, {}, target); });
  std::vector<NormLimbs> errors(num_clips - 1);
  refused([&] { f.clip_errors(exec, options, 0, values, amax, errors); });
  std::vector<std::uint32_t> clipped(1);
  refused([&] { f.clip_of_errors(amax, errors, clipped); });
  options.bits = 1;
  refused([&] { f.fake_quantize(exec, options, 0, values, amax, target); });
  options.bits = 9;
  refused([&] { f.quantize_integer(exec, options, 0, values, amax, codes); });
  CHECK(target == std::vector<float>{7, 7});
  CHECK(codes == std::vector<std::int8_t>{7, 7});
  refused([&] { f.histogram_exponent(0x7F800000U, 256); });
  refused([&] { f.histogram_exponent(0, 255); });
  std::vector<std::uint64_t> count(1000, 1);
  count[3] = (std::uint64_t{1} << 53) - 1000;
  CHECK(f.percentile_amax(count, 1, 100) == 999);
  for (const std::uint64_t fourth :
       {std::uint64_t{2}, ~std::uint64_t{0}}) {  // the sum of which wraps
    count[4] = fourth;
    refused([&] { f.percentile_amax(count, 1, 100); });
    refused([&] { f.entropy_amax(exec, count, 1, 8); });
  }
  const std::vector<std::uint64_t> zeros(256), ones(256, 1);
  refused([&] { f.percentile_amax(zeros, 1, 99); });
  refused([&] { f.percentile_amax(ones, 1, NAN); });
  refused([&] { f.entropy_amax(exec, zeros, 1, 8); });
  refused([&] { f.entropy_amax(exec, ones, 1, 9); });
  refused([&] { f.smooth_scales(exec, NAN, amax, amax, {target.data(), 1}); });
  refused([&] { f.smooth_scales(exec, 1, amax, {}, {target.data(), 1}); });
}

}  // namespace zeroproof::tests
