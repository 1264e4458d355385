#pragma once
// Pieces and values over them, in device memory, for tests of the kernels of a step.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/device/step/fold_nodes.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/device_place.hpp"

namespace zeroproof::device_test {

/// Pieces of these lengths with gaps between them, in both numberings, none adjacent to the next.
/// Their order in memory differs.
inline std::vector<Piece> pieces_of(const std::vector<std::int64_t>& numels) {
  std::vector<Piece> pieces;
  std::int64_t local = 0, global = (std::int64_t{1} << 40) + 5;
  for (const std::int64_t numel : numels) {
    const auto j = static_cast<std::int64_t>(pieces.size());
    pieces.push_back({j, 0, global, local, numel});
    local += numel + j % 3;
    global += numel + 1 + hash(static_cast<std::uint64_t>(j), 77) % 7;
  }
  if (pieces.size() > 2) std::swap(pieces[0], pieces[pieces.size() / 2]);
  return pieces;
}

/// Lengths around packs and parts.
inline std::vector<std::int64_t> odd_numels() {
  std::vector<std::int64_t> numels;
  for (std::int64_t numel = 1; numel <= 70; ++numel) numels.push_back(numel);
  for (const std::int64_t numel : {4095, 4096, 4099, 1024, 8195}) numels.push_back(numel);
  return numels;
}

class DevicePieceList {
 public:
  explicit DevicePieceList(const std::vector<Piece>& pieces)
      : count_(static_cast<std::int64_t>(pieces.size())),
        bytes_(std::max<std::int64_t>(1, count_ * static_cast<std::int64_t>(sizeof(Piece)))) {
    if (count_ > 0) {
      put(bytes_.data(), pieces.data(), count_ * static_cast<std::int64_t>(sizeof(Piece)));
    }
  }
  cuda::device::DevicePieces get() const {
    return {reinterpret_cast<const Piece*>(bytes_.data()), count_};
  }

 private:
  std::int64_t count_;
  DeviceBytes bytes_;
};

/// Placement of values: numbering, and offset in elements from a multiple of 16.
struct Placement {
  bool packed = true;
  int offset = 0;
};

/// Elements of pieces, between guard bytes.
class PlacedBuffer {
 public:
  PlacedBuffer(const std::vector<Piece>& pieces, int element_bytes, Placement placement)
      : element_bytes_(element_bytes), packed_(placement.packed), first_(placement.offset + 16) {
    std::int64_t end = 0;
    if (!packed_ && !pieces.empty()) base_ = pieces.front().global_begin;
    for (const Piece& piece : pieces) {
      if (!packed_) base_ = std::min(base_, piece.global_begin);
    }
    for (const Piece& piece : pieces) end = std::max(end, number(piece) + piece.numel);
    image_.assign(static_cast<std::size_t>((first_ + end - base_ + 16) * element_bytes), guard);
    expected_ = image_;
    device_ = std::make_unique<DeviceBytes>(static_cast<std::int64_t>(image_.size()));
  }

  void set(const Piece& piece, std::int64_t i, std::uint32_t bits) {
    std::memcpy(&image_[at(piece, i)], &bits, static_cast<std::size_t>(element_bytes_));
  }
  std::uint32_t get(const Piece& piece, std::int64_t i) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &image_[at(piece, i)], static_cast<std::size_t>(element_bytes_));
    return bits;
  }
  void upload() {
    expected_ = image_;
    put(device_->data(), image_.data(), static_cast<std::int64_t>(image_.size()));
  }
  void download() { image_ = device_->bytes(); }

  /// After a download: restores an element to its uploaded value.
  void take_back(const Piece& piece, std::int64_t i) {
    for (int b = 0; b < element_bytes_; ++b) {
      image_[at(piece, i) + static_cast<std::size_t>(b)] =
          expected_[at(piece, i) + static_cast<std::size_t>(b)];
    }
  }
  bool is_as_uploaded() const { return image_ == expected_; }

  /// A packed view ignores its base, so the test passes a wrong base.
  cuda::device::PlacedValues values(DType dtype) const {
    return {device_->data() + first_ * element_bytes_, dtype, packed_ ? 987654321 : base_, packed_};
  }

 private:
  static constexpr unsigned char guard = 0xA5;

  std::int64_t number(const Piece& piece) const {
    return packed_ ? piece.local_begin : piece.global_begin;
  }
  std::size_t at(const Piece& piece, std::int64_t i) const {
    return static_cast<std::size_t>((first_ + number(piece) - base_ + i) * element_bytes_);
  }

  int element_bytes_;
  bool packed_;
  std::int64_t first_;
  std::int64_t base_ = 0;
  Bytes image_, expected_;
  std::unique_ptr<DeviceBytes> device_;
};

/// R8, written out.
inline float widened_by_hand(DType dtype, std::uint32_t bits) {
  if (dtype == DType::fp32) return std::bit_cast<float>(bits);
  if (dtype == DType::bf16) return std::bit_cast<float>(bits << 16);
  const auto exponent = static_cast<int>(bits >> 10 & 31U);
  const auto fraction = static_cast<float>(bits & 1023U);
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0.0F ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(fraction + 1024.0F, exponent - 25));
}

/// Bits of a value: every fifth is arbitrary, including NaN and infinities; the others can be
/// added.
inline std::uint32_t some_bits(DType dtype, std::uint64_t i, std::uint64_t stream) {
  const std::uint32_t random = hash(i, stream);
  const bool any = hash(i, 1) % 5 == 0;
  if (dtype == DType::fp16) return any ? random & 0xFFFFU : random & 0xBFFFU;
  const std::uint32_t sane = (random & 0x807FFFFFU) | (100U + (random >> 3) % 54U) << 23;
  float special = 0;
  fill(Span<float>(&special, 1), random);
  const std::uint32_t bits = any ? std::bit_cast<std::uint32_t>(special) : sane;
  return dtype == DType::bf16 ? bits >> 16 : bits;
}

}  // namespace zeroproof::device_test
