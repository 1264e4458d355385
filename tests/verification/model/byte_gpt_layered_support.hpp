#pragma once
// Buffers of any dtype, and passes whose memory is freed after every call.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/float_formats.hpp"
#include "tests/verification/model/byte_gpt_support.hpp"
#include "verification/model/byte_gpt_layered.hpp"

namespace zeroproof::workload {

inline constexpr float unwritten = std::numeric_limits<float>::quiet_NaN();

/// Elements of one dtype, as bytes.
struct Elements {
  Elements(DType type, std::size_t numel)
      : dtype(type), bytes(numel * static_cast<std::size_t>(num_bytes(type))) {}

  TensorView view() { return part(0, static_cast<std::int64_t>(bytes.size()) / num_bytes(dtype)); }
  TensorView part(std::int64_t begin, std::int64_t numel) {
    return {bytes.data() + begin * num_bytes(dtype), dtype, numel};
  }
  void set(std::size_t i, float value) {
    if (dtype == DType::fp32) reinterpret_cast<float*>(bytes.data())[i] = value;
    if (dtype == DType::bf16) reinterpret_cast<bf16*>(bytes.data())[i] = to_bf16(value);
    if (dtype == DType::fp16) reinterpret_cast<fp16*>(bytes.data())[i] = to_fp16(value);
  }
  float get(std::size_t i) const {
    if (dtype == DType::bf16) return to_float(reinterpret_cast<const bf16*>(bytes.data())[i]);
    if (dtype == DType::fp16) return to_float(reinterpret_cast<const fp16*>(bytes.data())[i]);
    return reinterpret_cast<const float*>(bytes.data())[i];
  }

  DType dtype;
  std::vector<std::byte> bytes;
};

inline Elements filled(DType dtype, std::size_t numel, float value) {
  Elements elements(dtype, numel);
  for (std::size_t i = 0; i < numel; ++i) elements.set(i, value);
  return elements;
}

inline Elements rounded(DType dtype, const std::vector<float>& values) {
  Elements elements(dtype, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) elements.set(i, values[i]);
  return elements;
}

inline ByteGptData windows(const ByteGptShape& shape, float loss_scale) {
  return [shape, loss_scale](std::int64_t j) {
    // Fewer tokens from one micro-batch to the next, down to 2.
    const auto all = tokens_of(shape, static_cast<std::size_t>(5 * j));
    const auto count = std::max<std::size_t>(
        all.size() - std::min<std::size_t>(4 * static_cast<std::size_t>(j), 12), 2);
    return ByteGptMicroBatch{all.first(count), loss_scale};
  };
}

/// A pass with parameters that exist during a call only, as in stage 3; padding is NaN.
inline void run_in_passing(ByteGptLayered& model, std::int64_t micro_batch, const Elements& params,
                           Elements& leaf) {
  const std::size_t width = static_cast<std::size_t>(num_bytes(params.dtype));
  const auto call = [&](int unit, const std::function<void(const TensorView&)>& work) {
    const FlatRange range = model.units()[unit];
    Elements copy = filled(params.dtype, static_cast<std::size_t>(range.numel()), unwritten);
    for (const Piece& piece : model.layout().pieces({range})) {
      std::copy_n(params.bytes.data() + static_cast<std::size_t>(piece.global_begin) * width,
                  static_cast<std::size_t>(piece.numel) * width,
                  copy.bytes.data() + static_cast<std::size_t>(piece.local_begin) * width);
    }
    work(copy.view());
  };
  model.begin(micro_batch);
  const std::vector<int> visits = model.visits();
  for (const int unit : visits) {
    call(unit, [&](const TensorView& param) { model.forward(unit, param); });
  }
  for (auto unit = visits.rbegin(); unit != visits.rend(); ++unit) {
    const FlatRange range = model.units()[*unit];
    const int which = *unit;
    call(which, [&](const TensorView& param) {
      model.backward(which, param, leaf.part(range.begin, range.numel()));
    });
  }
}

/// Elements of tensors must be `expected`, rounded to the gradient dtype; padding must still be
/// NaN.
inline void check_leaf(const FlatLayout& layout, const Elements& leaf,
                       const std::vector<float>& expected) {
  const Elements want = rounded(leaf.dtype, expected);
  const auto width = static_cast<std::size_t>(num_bytes(leaf.dtype));
  int wrong = 0;
  int touched = 0;
  for (std::int64_t i = 0; i < layout.padded_numel(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (layout.tensor_at(i) < 0) {
      touched += std::isnan(leaf.get(k)) ? 0 : 1;
    } else if (std::memcmp(&leaf.bytes[k * width], &want.bytes[k * width], width) != 0) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(touched == 0);
}

}  // namespace zeroproof::workload
