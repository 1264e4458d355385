#include "verification/tools/quantize/calibration/quantized_tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/contracts/scale_recipe.hpp"
#include "common/step/policy.hpp"
#include "common/step/portable_math64.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::verification {
namespace {

/// Rows and columns of a tensor, blocks by the axis of the payload.
BlockGrid grid_of_scales(const TensorSlot& slot, const QuantPayload& payload) {
  const std::int64_t columns = slot.shape.empty() ? 1 : slot.shape.back();
  const std::int64_t rows = columns == 0 ? 0 : slot.numel / columns;
  BlockGrid grid = one_block(rows, columns);
  if (payload.axis == 0) grid.block_rows = 1;
  if (payload.axis == 1) grid.block_columns = 1;
  return grid;
}

double norm_of(const Exec& exec, Span<const float> values) {
  NormLimbs limbs;
  cuda::host::grad_norm_exact_accumulate(exec, values, limbs);
  return cuda::host::grad_norm_finish(limbs);
}

QuantizationError error_of(const Exec& exec, Span<const float> x, Span<const float> f) {
  std::vector<float> e(x.size());
  for (std::size_t i = 0; i < e.size(); ++i) e[i] = x[i] - f[i];
  std::uint32_t largest = 0;
  cuda::host::grad_max_accumulate(exec, e, largest);
  const double lost = norm_of(exec, e), whole = norm_of(exec, x);
  QuantizationError error{std::bit_cast<float>(largest), 0, {}};
  if (!e.empty()) error.rms = lost / std::sqrt(static_cast<double>(e.size()));
  if (lost > 0 && whole > 0) {
    constexpr double ln10 = 0x1.26bb1bbb55516p+1;
    error.sqnr_db = 20 * (portable_math64::log(whole) - portable_math64::log(lost)) / ln10;
  }
  return error;
}

/// The scale of codes with this amax: 1 if all of them are 0.
float scale_of(const FakeQuantization& options, std::uint32_t amax) {
  const float a = std::bit_cast<float>(amax);
  if (options.format == FakeFormat::integer) {
    return a <= smallest_amax ? 1.0F : static_cast<float>((1 << (options.bits - 1)) - 1) / a;
  }
  const float top = largest_of(options.format == FakeFormat::e4m3 ? Fp8::e4m3 : Fp8::e5m2);
  return top / (a <= smallest_amax ? 1.0F : a);
}

template <class T>
Span<T> as_elements(std::vector<std::byte>& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// bf16 and fp16: a cast, and the value is the code's.
void cast_tensor(const Exec& exec, Span<const float> x, QuantizedTensor& made) {
  made.codes.resize(x.size() * 2);
  made.values.resize(x.size());
  if (made.payload.format == QuantFormat::bf16) {
    cuda::host::cast_to_bf16(exec, x, as_elements<bf16>(made.codes));
    cuda::host::widen_bf16(exec, as_elements<const bf16>(made.codes), made.values);
  } else {
    cuda::host::cast_to_fp16(exec, x, as_elements<fp16>(made.codes));
    cuda::host::widen_fp16(exec, as_elements<const fp16>(made.codes), made.values);
  }
}

/// The amax of every block of a weight, by the method.
std::vector<std::uint32_t> weight_amax(const Exec& exec, const QuantPayload& payload,
                                       const BlockGrid& grid, HistogramGrowth growth,
                                       Span<const float> x) {
  std::vector<std::uint32_t> amax(grid.num_blocks(), 0);
  if (payload.calibration == CalibrationMethod::percentile ||
      payload.calibration == CalibrationMethod::entropy) {
    if (std::ranges::all_of(x, [](float value) { return value == 0; })) return amax;
    MagnitudeHistogram histogram(growth, payload.bins);
    histogram.add(exec, x);
    amax.at(0) = amax_of_bins(exec, payload, histogram);
    return amax;
  }
  cuda::host::block_amax(exec, grid, QuantizedValue::direct, 0, x, amax);
  if (payload.calibration == CalibrationMethod::mse) {
    std::vector<NormLimbs> errors(amax.size() * num_clips);
    cuda::host::clip_errors(exec, fake_quantization_of(payload, grid), 0, x, amax, errors);
    std::vector<std::uint32_t> clipped(amax.size());
    cuda::host::clip_of_errors(amax, errors, clipped);
    return clipped;
  }
  return amax;
}

void make_codes(const Exec& exec, Span<const float> x, QuantizedTensor& made) {
  const FakeQuantization options = fake_quantization_of(made.payload, made.grid);
  made.values.resize(x.size());
  made.codes.resize(x.size());
  cuda::host::fake_quantize(exec, options, 0, x, made.amax, made.values);
  for (const std::uint32_t a : made.amax) made.scale.push_back(scale_of(options, a));
  const BlockQuantization blocks{made.grid};
  if (options.format == FakeFormat::integer) {
    cuda::host::quantize_integer(exec, options, 0, x, made.amax,
                                 as_elements<std::int8_t>(made.codes));
  } else if (options.format == FakeFormat::e4m3) {
    cuda::host::block_quantize_e4m3(exec, blocks, 0, x, made.scale, as_elements<e4m3>(made.codes));
  } else {
    cuda::host::block_quantize_e5m2(exec, blocks, 0, x, made.scale, as_elements<e5m2>(made.codes));
  }
}

/// Moves the range of the inputs into the weight, row by row (R26). Returns the amax of the inputs
/// that are left.
std::uint32_t smooth_weight(const Exec& exec, const InputStatistics& input, std::int64_t columns,
                            std::vector<float>& weight, std::vector<float>& smooth) {
  const auto rows = static_cast<std::int64_t>(input.channels.size());
  std::vector<std::uint32_t> of_rows(input.channels.size(), 0);
  cuda::host::block_amax(exec, BlockGrid{rows, columns, 1, columns}, QuantizedValue::direct, 0,
                         weight, of_rows);
  smooth.resize(input.channels.size());
  cuda::host::smooth_scales(exec, input.payload.alpha, input.channels, of_rows, smooth);
  std::uint32_t largest = 0;
  for (std::size_t r = 0; r < smooth.size(); ++r) {
    const float back = 1.0F / smooth[r];
    const auto width = static_cast<std::size_t>(columns);
    for (std::size_t c = 0; c < width; ++c) weight[r * width + c] = weight[r * width + c] * back;
    // A product of the largest magnitude is the largest product: rounding keeps the order.
    const float product = std::bit_cast<float>(input.channels[r]) * smooth[r];
    largest = std::max(largest, std::bit_cast<std::uint32_t>(product));
  }
  return largest;
}

std::uint32_t clipped_input(const Exec& exec, const InputStatistics& input) {
  const std::uint32_t amax = input.amax(exec);
  if (input.payload.calibration != CalibrationMethod::mse) return amax;
  std::uint32_t clipped = 0;
  cuda::host::clip_of_errors({&amax, 1}, input.errors, {&clipped, 1});
  return clipped;
}

}  // namespace

bool has_inputs(const std::string& tensor) {
  for (const char* layer :
       {"attention.query.weight", "attention.key.weight", "attention.value.weight",
        "attention.output.weight", "mlp.up.weight", "mlp.down.weight"}) {
    if (tensor.ends_with(layer)) return true;
  }
  return tensor == "head.weight";
}

void check_payload(const TensorSlot& slot, const QuantPayload& payload, bool has_input) {
  ZP_CHECK(payload.recipe == QuantRecipe::none, ErrorCode::config,
           "tensor " + slot.name + " has the recipe " + std::string(name(payload.recipe)),
           "a recipe computes its scale in every step, and a file has a fixed one",
           "give its config a calibration instead");
  ZP_CHECK(payload.axis < static_cast<int>(slot.shape.size()), ErrorCode::config,
           "tensor " + slot.name + " has " + std::to_string(slot.shape.size()) +
               " dimensions and no axis " + std::to_string(payload.axis),
           "there is a scale for every place on the axis",
           "use a smaller axis, counted from 0, or none");
  ZP_CHECK(payload.calibration != CalibrationMethod::smoothquant || has_input, ErrorCode::config,
           "tensor " + slot.name + " has the method smoothquant and is no weight of a linear layer",
           "there are no inputs to move a range from", "use another method for it");
}

QuantizedTensor quantize_tensor(const Exec& exec, const ModelFile& model, std::size_t tensor,
                                const QuantPayload& payload, HistogramGrowth growth,
                                const InputStatistics* input) {
  const TensorSlot& slot = model.layout.tensors()[tensor];
  check_payload(slot, payload, input != nullptr);
  QuantizedTensor made;
  made.tensor = tensor;
  made.payload = payload;
  made.grid = grid_of_scales(slot, payload);
  const Span<const float> whole = model.tensor(tensor);
  std::vector<float> x(whole.begin(), whole.end());
  if (!payload.has_scale()) {
    cast_tensor(exec, x, made);
  } else {
    if (payload.calibration == CalibrationMethod::smoothquant) {
      made.input_amax = smooth_weight(exec, *input, made.grid.columns, x, made.smooth);
    } else if (input != nullptr) {
      made.input_amax = clipped_input(exec, *input);
    }
    made.amax = weight_amax(exec, payload, made.grid, growth, x);
    make_codes(exec, x, made);
    if (made.input_amax)
      made.input_scale = scale_of(fake_quantization_of(payload, one_block(1, 1)), *made.input_amax);
  }
  made.error = error_of(exec, x, made.values);
  return made;
}

}  // namespace zeroproof::verification
