#include "reference/buffers.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/cast.hpp"

namespace zeroproof::reference {
namespace {

constexpr std::uint16_t nan_bits_16 = 0x7FFF;  // a NaN in bf16 and in fp16

template <class T>
Span<const T> elements(const TensorView& view) {
  return {static_cast<const T*>(view.data), static_cast<std::size_t>(view.numel)};
}

}  // namespace

std::vector<float> nan_buffer(std::int64_t numel) {
  return std::vector<float>(static_cast<std::size_t>(numel), std::numeric_limits<float>::quiet_NaN());
}

std::vector<float> widen_leaf(const TensorView& leaf, const std::vector<Piece>& pieces) {
  std::vector<float> widened = nan_buffer(leaf.numel);
  for (const Piece& piece : pieces) {
    const std::int64_t begin = piece.local_begin;
    const Span<float> target = part(Span<float>(widened), begin, piece.numel);
    switch (leaf.dtype) {
      case DType::fp32:
        std::ranges::copy(part(elements<float>(leaf), begin, piece.numel), target.begin());
        break;
      case DType::bf16:
        widen_bf16({}, part(elements<bf16>(leaf), begin, piece.numel), target);
        break;
      case DType::fp16:
        widen_fp16({}, part(elements<fp16>(leaf), begin, piece.numel), target);
        break;
      default:
        fail(ErrorCode::invalid_argument, "a leaf has dtype " + std::string(name(leaf.dtype)),
             "gradients are fp32, bf16 or fp16", "choose one of these");
    }
  }
  return widened;
}

ParamBuffer::ParamBuffer(DType dtype, std::int64_t numel) : dtype_(dtype) {
  const std::size_t size = static_cast<std::size_t>(numel);
  switch (dtype) {
    case DType::fp32:
      fp32_ = nan_buffer(numel);
      break;
    case DType::bf16:
      bf16_.assign(size, bf16{nan_bits_16});
      break;
    case DType::fp16:
      fp16_.assign(size, fp16{nan_bits_16});
      break;
    default:
      fail(ErrorCode::invalid_argument, "the parameter dtype is " + std::string(name(dtype)),
           "parameters are fp32, bf16 or fp16", "choose one of these");
  }
}

void ParamBuffer::round_from(Span<const float> master, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const std::int64_t begin = piece.local_begin;
    const Span<const float> source = part(master, begin, piece.numel);
    switch (dtype_) {
      case DType::bf16:
        cast_to_bf16({}, source, part(Span<bf16>(bf16_), begin, piece.numel));
        break;
      case DType::fp16:
        cast_to_fp16({}, source, part(Span<fp16>(fp16_), begin, piece.numel));
        break;
      default:
        std::ranges::copy(source, part(Span<float>(fp32_), begin, piece.numel).begin());
    }
  }
}

void ParamBuffer::round_at_random(Span<const float> master, const std::vector<Piece>& pieces,
                                  std::uint64_t seed,
                                  const std::function<std::uint64_t(std::int64_t)>& step_of_tensor) {
  ZP_CHECK(dtype_ == DType::bf16, ErrorCode::invalid_argument,
           "parameters of " + std::string(name(dtype_)) + " are to be rounded stochastically",
           "only the rounding to bf16 has a stochastic form", "use bf16, or param_rounding nearest");
  for (const Piece& piece : pieces) {
    const std::int64_t begin = piece.local_begin;
    const RoundingDraw draw{seed, step_of_tensor(piece.tensor),
                            static_cast<std::uint64_t>(piece.global_begin)};
    stochastic_cast_to_bf16({}, draw, part(master, begin, piece.numel),
                            part(Span<bf16>(bf16_), begin, piece.numel));
  }
}

TensorView ParamBuffer::view() const {
  // A view has no const; taps may write, because the owner of the buffer let them.
  const auto view_of = [&](const auto& values) {
    using Element = typename std::decay_t<decltype(values)>::value_type;
    return TensorView{const_cast<Element*>(values.data()), dtype_, static_cast<std::int64_t>(values.size())};
  };
  switch (dtype_) {
    case DType::bf16:
      return view_of(bf16_);
    case DType::fp16:
      return view_of(fp16_);
    default:
      return view_of(fp32_);
  }
}

}  // namespace zeroproof::reference
