#include "reference/buffers.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/step/param_scaling.hpp"
#include "reference/blocks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

// The casts of a format by the type of its elements; those of fp32 are copies.
void widen(Span<const float> source, Span<float> target) {
  std::ranges::copy(source, target.begin());
}
void widen(Span<const bf16> source, Span<float> target) { widen_bf16({}, source, target); }
void widen(Span<const fp16> source, Span<float> target) { widen_fp16({}, source, target); }
void round(Span<const float> source, Span<float> target) {
  std::ranges::copy(source, target.begin());
}
void round(Span<const float> source, Span<bf16> target) { cast_to_bf16({}, source, target); }
void round(Span<const float> source, Span<fp16> target) { cast_to_fp16({}, source, target); }

void without_scale() {
  fail(ErrorCode::internal, "8-bit parameters rounded or read without a scale",
       "their codes are of scaled values (R24)", "report this as a defect");
}
void round(Span<const float>, Span<e4m3>) { without_scale(); }
void round(Span<const float>, Span<e5m2>) { without_scale(); }
void widen(Span<const e4m3>, Span<float>) { without_scale(); }
void widen(Span<const e5m2>, Span<float>) { without_scale(); }

void check_format(bool ok, const char* problem, const char* why, DType dtype) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem + std::string(name(dtype)), why,
           "choose one of these");
}

/// NaN in every element.
template <class Format>
auto nan_values(Format, std::int64_t numel) {
  using T = typename Format::type;
  return std::vector<T>(numel, std::bit_cast<T>(Format::magnitude));
}

}  // namespace

std::vector<float> nan_buffer(std::int64_t numel) {
  return std::vector<float>(numel, std::numeric_limits<float>::quiet_NaN());
}

std::vector<float> widen_leaf(const TensorView& leaf, const std::vector<Piece>& pieces) {
  check_format(is_param_format(leaf.dtype), "a gradient has dtype ",
               "gradients are fp32, bf16 or fp16", leaf.dtype);
  // Appends piece by piece, so that the fp32 copy of a piece is still in the cache when it is read.
  constexpr float padding = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> widened;
  widened.reserve(leaf.numel);
  visit_param_format(leaf.dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    const Span<const T> elements{static_cast<const T*>(leaf.data),
                                 static_cast<std::size_t>(leaf.numel)};
    for (const Piece& piece : pieces) {
      widened.resize(piece.local_begin, padding);
      for_each_block(piece.numel, [&](std::int64_t begin, std::int64_t count) {
        widened.resize(widened.size() + static_cast<std::size_t>(count));
        widen(part(elements, piece.local_begin + begin, count),
              part(Span<float>(widened), piece.local_begin + begin, count));
      });
    }
  });
  widened.resize(leaf.numel, padding);
  return widened;
}

ParamBuffer::ParamBuffer(DType dtype, std::int64_t numel) : dtype_(dtype) {
  check_format(is_param_format(dtype) || has_scales(dtype), "the parameter dtype is ",
               "parameters are fp32, bf16, fp16, e4m3 or e5m2", dtype);
  if (dtype == DType::e4m3) {
    values_ = nan_values(Format<e4m3>{}, numel);
  } else if (dtype == DType::e5m2) {
    values_ = nan_values(Format<e5m2>{}, numel);
  } else {
    visit_param_format(dtype, [&](auto format) { values_ = nan_values(format, numel); });
  }
}

void ParamBuffer::round_from(Span<const float> master, const std::vector<Piece>& pieces) {
  const auto round_into = [&](auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    for (const Piece& piece : pieces) {
      round(part(master, piece.local_begin, piece.numel),
            part(Span<T>(values), piece.local_begin, piece.numel));
    }
  };
  std::visit(round_into, values_);
}

void ParamBuffer::round_at_random(
    Span<const float> master, const std::vector<Piece>& pieces, std::uint64_t seed,
    const std::function<std::uint64_t(std::int64_t)>& step_of_tensor) {
  ZP_CHECK(dtype_ == DType::bf16, ErrorCode::invalid_argument,
           "stochastic rounding of parameters to " + std::string(name(dtype_)),
           "only rounding to bf16 has a stochastic form", "use bf16, or param_rounding nearest");
  for (const Piece& piece : pieces) {
    const std::int64_t begin = piece.local_begin;
    const RoundingDraw draw{seed, step_of_tensor(piece.tensor),
                            static_cast<std::uint64_t>(piece.global_begin)};
    stochastic_cast_to_bf16(
        {}, draw, part(master, begin, piece.numel),
        part(Span<bf16>(std::get<std::vector<bf16>>(values_)), begin, piece.numel));
  }
}

void ParamBuffer::copy_from(const ParamBuffer& other) {
  const auto copy = [&](auto& values) {
    std::ranges::copy(std::get<std::decay_t<decltype(values)>>(other.values_), values.begin());
  };
  std::visit(copy, values_);
}

void ParamBuffer::widen_into(std::vector<float>& values, const std::vector<Piece>& pieces) const {
  const auto widen_from = [&](const auto& stored) {
    using T = typename std::decay_t<decltype(stored)>::value_type;
    for (const Piece& piece : pieces)
      widen(part(Span<const T>(stored), piece.local_begin, piece.numel), at(values, piece));
  };
  std::visit(widen_from, values_);
}

TensorView ParamBuffer::view() const {
  // A view has no const; the owner of the buffer allows observers to write.
  const auto view_of = [&](const auto& values) {
    using Element = typename std::decay_t<decltype(values)>::value_type;
    return TensorView{const_cast<Element*>(values.data()), dtype_,
                      static_cast<std::int64_t>(values.size())};
  };
  return std::visit(view_of, values_);
}

}  // namespace zeroproof::reference
