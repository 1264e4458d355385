// calibration_tool: on every line of standard input a method, a word and numbers; prints the results.
// "percentile 99.9 c0 c1 ..", "entropy 8 c0 c1 ..": the amax of counts in bins of width 1. Of fp32 values, which are
// given and printed as bits: "integer BITS AMAX x0 x1 ..", "e4m3 0 AMAX x0 x1 ..": fake quantization; "mse BITS AMAX x0
// .." (BITS 0: e4m3): the clip of the least error; "max COLUMNS x0 x1 ..": the amax of columns; "appended BINS n x0 ..
// x(n-1) n ..": width and counts after such batches; "cast NAME x0 x1 ..", "widen NAME c0 c1 ..": casts to codes, and
// codes there and back; "smooth ALPHA CHANNELS x0 .. w0 ..": factors of channels, by the amax of inputs and of weights.

#include "cuda/host/operations.hpp"
#include "tests/verification/tools/quantize/tool_lines.hpp"
#include "verification/tools/quantize/calibration/magnitude_histogram.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
namespace host = zeroproof::cuda::host;
using Line = ToolLine;

FakeQuantization options_of(int bits, std::size_t numel) {
  FakeQuantization options{one_block(1, static_cast<std::int64_t>(numel))};
  if (bits == 0) options.format = FakeFormat::e4m3;
  if (bits != 0) options.bits = bits;
  return options;
}

void percentile(Line& line) {
  const auto p = next<double>(line);
  std::printf("%.9g", host::percentile_amax(rest_of<std::uint64_t>(line), 1, p));
}

void entropy(Line& line) {
  const auto bits = next<int>(line);
  std::printf("%.9g", host::entropy_amax({}, rest_of<std::uint64_t>(line), 1, bits));
}

void faked(Line& line) {
  const auto bits = next<int>(line);
  const auto amax = next<std::uint32_t>(line);
  std::vector<float> values = floats_of(line);
  host::fake_quantize({}, options_of(bits, values.size()), 0, values, {&amax, 1}, values);
  print(values);
}

void mean_square(Line& line) {
  const auto bits = next<int>(line);
  const auto amax = next<std::uint32_t>(line);
  const std::vector<float> values = floats_of(line);
  std::vector<NormLimbs> errors(num_clips);
  host::clip_errors({}, options_of(bits, values.size()), 0, values, {&amax, 1}, errors);
  std::uint32_t clipped = 0;
  host::clip_of_errors({&amax, 1}, errors, {&clipped, 1});
  std::printf("%u", clipped);
}

void largest(Line& line) {
  const auto columns = next<std::int64_t>(line);
  const std::vector<float> values = floats_of(line);
  const std::int64_t rows = numel(Span<const float>(values)) / columns;
  std::vector<std::uint32_t> amax(columns, 0);
  host::block_amax({}, BlockGrid{rows, columns, rows, 1}, QuantizedValue::direct, 0, values, amax);
  for (const std::uint32_t word : amax) std::printf("%u ", word);
}

void appended(Line& line) {
  MagnitudeHistogram bins(HistogramGrowth::appended, next<std::int64_t>(line));
  for (std::size_t count = 0; line >> count;) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(next_float(line));
    bins.add({}, values);
  }
  std::printf("%u ", std::bit_cast<std::uint32_t>(bins.width()));
  for (const std::uint64_t count : bins.count())
    std::printf("%llu ", static_cast<unsigned long long>(count));
}

void smooth(Line& line) {
  const auto alpha = next<double>(line);
  const auto channels = next<std::size_t>(line);
  const std::vector<std::uint32_t> amax = rest_of<std::uint32_t>(line);
  if (amax.size() != 2 * channels) return;
  std::vector<float> scale(channels);
  const Span<const std::uint32_t> both(amax);
  host::smooth_scales({}, alpha, both.first(channels), both.subspan(channels), scale);
  print(scale);
}

template <class Format>
void cast_by(void (*implementation)(const Exec&, Span<const float>, Span<Format>), Line& line) {
  const std::vector<float> values = floats_of(line);
  std::vector<Format> codes(values.size());
  implementation({}, values, codes);
  for (const Format code : codes) std::printf("%u ", static_cast<unsigned>(code.bits));
}

void cast(Line& line) {
  const auto name = next<std::string>(line);
  if (name == "bf16") cast_by(host::cast_to_bf16, line);
  if (name == "e4m3") cast_by(host::cast_to_e4m3, line);
  if (name == "e5m2") cast_by(host::cast_to_e5m2, line);
  if (name == "nonfinite_e4m3") cast_by(host::nonfinite_cast_to_e4m3, line);
  if (name == "nonfinite_e5m2") cast_by(host::nonfinite_cast_to_e5m2, line);
  if (name == "e8m0") cast_by(host::cast_to_e8m0, line);
}

template <class Format>
void widen_by(void (*implementation)(const Exec&, Span<const Format>, Span<float>), Line& line) {
  std::vector<Format> codes;
  for (const unsigned code : rest_of<unsigned>(line))
    codes.push_back({static_cast<decltype(Format::bits)>(code)});
  std::vector<float> values(codes.size());
  implementation({}, codes, values);
  print(values);
}

void widen(Line& line) {
  const auto name = next<std::string>(line);
  if (name == "bf16") widen_by(host::widen_bf16, line);
  if (name == "e4m3") widen_by(host::widen_e4m3, line);
  if (name == "e5m2") widen_by(host::widen_e5m2, line);
  if (name == "e8m0") widen_by(host::widen_e8m0, line);
}

}  // namespace

int main() {
  return answer({{"percentile", percentile},
                 {"entropy", entropy},
                 {"integer", faked},
                 {"e4m3", faked},
                 {"mse", mean_square},
                 {"max", largest},
                 {"appended", appended},
                 {"smooth", smooth},
                 {"cast", cast},
                 {"widen", widen}});
}
