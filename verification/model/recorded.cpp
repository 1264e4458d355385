#include "verification/model/recorded.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "verification/model/random_streams.hpp"

namespace zeroproof::workload {
namespace {

float element(const std::byte* bytes, SafeDType dtype) {
  if (dtype == SafeDType::f32) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return dtype == SafeDType::bf16 ? to_float(bf16{bits}) : to_float(fp16{bits});
}

/// Exact in double, so the conversion to fp32 is the only rounding.
float scaled(float value, double factor) {
  return factor == 1.0 ? value : static_cast<float>(static_cast<double>(value) * factor);
}

/// Calls use(i, value) for the elements of a tensor, in order.
template <class Use>
void for_each_element(const SafetensorsReader& reader, const SafeTensor& tensor, const Use& use) {
  const std::int64_t width = num_bytes(tensor.dtype);
  std::int64_t i = 0;
  reader.for_each_chunk(tensor, [&](Span<const std::byte> chunk) {
    for (const std::byte* at = chunk.data(); at != chunk.data() + chunk.size(); at += width) {
      use(i++, element(at, tensor.dtype));
    }
  });
}

}  // namespace

void RecordedGradients::init_parameters(const FlatLayout& layout, std::uint64_t seed,
                                        Span<float> flat) const {
  for (std::size_t k = 0; k < layout.tensors().size(); ++k) {
    const TensorSlot& slot = layout.tensors()[k];
    float* values = flat.data() + slot.begin;
    if (has_initial_) {
      for_each_element(reader_, *reader_.find("param." + slot.name),
                       [&](std::int64_t i, float value) { values[i] = value; });
      continue;
    }
    const Philox philox(seed, first_init_stream + static_cast<std::uint32_t>(k));
    for (std::int64_t i = 0; i < slot.numel; ++i)
      values[i] = 0.02F * philox.bell(static_cast<std::uint64_t>(i));
  }
}

double RecordedGradients::micro_batch_grad(std::int64_t step, std::int64_t micro_batch,
                                           int log2_loss_scale, const FlatLayout& layout,
                                           const TensorView& leaf) const {
  const double factor = std::ldexp(1.0, log2_loss_scale - log2_loss_scale_);
  for (const TensorSlot& slot : layout.tensors()) {
    const SafeTensor& tensor = *reader_.find(gradient_name(step, micro_batch, slot.name));
    for_each_element(reader_, tensor, [&](std::int64_t i, float value) {
      store_element(leaf, slot.begin + i, scaled(value, factor));
    });
  }
  return loss(step, micro_batch);
}

double RecordedGradients::loss(std::int64_t step, std::int64_t micro_batch) const {
  const SafeTensor* tensor = reader_.find("loss");
  if (tensor == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const std::int64_t width = num_bytes(tensor->dtype);
  std::array<std::byte, 8> bytes{};
  reader_.read(*tensor, ((step - 1) * micro_batches_ + micro_batch) * width,
               Span<std::byte>(bytes).first(width));
  if (tensor->dtype == SafeDType::f64) return std::bit_cast<double>(bytes);
  return static_cast<double>(element(bytes.data(), SafeDType::f32));
}

std::string RecordedGradients::settings() const {
  const auto entry = reader_.metadata().find("settings");
  return entry == reader_.metadata().end() ? "" : entry->second;
}

std::string gradient_name(std::int64_t step, std::int64_t micro_batch,
                          const std::string& parameter) {
  return "grad." + std::to_string(step) + "." + std::to_string(micro_batch) + "." + parameter;
}

SafetensorsLimits recording_limits() {
  SafetensorsLimits limits;
  limits.header_bytes = largest_safetensors_header;
  return limits;
}

std::shared_ptr<const RecordedGradients> open_recorded(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const RecordedGradients>> open;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const RecordedGradients>& recorded = open[path];
  if (!recorded) recorded = std::make_shared<const RecordedGradients>(path);
  return recorded;
}

}  // namespace zeroproof::workload
