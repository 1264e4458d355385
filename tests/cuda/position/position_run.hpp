#pragma once
// The engine of the position test: runs an operation on buffers that each have their own offset,
// inside memory that detects reads and writes outside of them.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/base/philox.hpp"
#include "tests/cuda/position/position_table.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ZP_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZP_ADDRESS_SANITIZER
#endif
#endif
#if defined(ZP_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace zeroproof::tests {

inline constexpr std::int64_t margin = 64;         ///< elements on both sides that must not change
inline constexpr std::int64_t offset_bytes = 128;  ///< twice the widest vector

/// Patterns of every kind: any bits, numbers of ordinary size, and the special ones, with ties and limits of the narrow
/// formats and the limit of clip_value. Second moments, which are buffers 3 and 4, get roots.
inline std::uint32_t make_bits(std::size_t buffer, std::size_t i) {
  static constexpr std::uint32_t specials[] = {
      0x00000000, 0x80000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF,
      0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800001, 0x3F801000, 0xBF803000,
      0x3F808000, 0x3F818000, 0x33000000, 0x3F880000, 0x3FA00000, 0x43E00000,
      0x43E80000, 0x47700000, 0x3A800000, 0xB7000000, 0x3E800000, 0xBE800000};
  const Philox random(20240229, static_cast<std::uint32_t>(buffer));
  const std::uint32_t word = random.word(2 * i);
  const std::uint32_t kind = random.word(2 * i + 1);
  if (kind % 16 == 0) return specials[kind / 16 % std::size(specials)];
  if (kind % 4 == 1) return word;
  return std::bit_cast<std::uint32_t>(random.bell(2 * i)) &
         (buffer >= 3 ? 0x7FFFFFFFU : 0xFFFFFFFFU);
}

/// The same, prepared once: every run starts with a copy.
inline const std::vector<std::uint32_t>& input_bits(std::size_t buffer, std::int64_t numel) {
  static std::map<std::size_t, std::vector<std::uint32_t>> made;
  std::vector<std::uint32_t>& bits = made[buffer];
  for (std::size_t i = bits.size(); i < static_cast<std::size_t>(numel); ++i) {
    bits.push_back(make_bits(buffer, i));
  }
  return bits;
}

/// Memory around read-only operands. The reference run has plain values there, the compared runs
/// NaNs of every format, so that reads outside change the result.
enum class Margins : std::uint8_t { plain = 0xA5, nan = 0xFF };

/// The buffers of one run, each with its own offset, inside memory that detects accesses to
/// neighbours.
class Run {
 public:
  /// Elements first .. first + numel of the operation's data, buffer b starting at element offsets(b).
  template <class Offsets>
  Run(const PositionOperation& op, std::int64_t first, std::int64_t numel, Offsets&& offsets,
      Margins margins = Margins::nan)
      : op_(op), first_(first), numel_(numel) {
    for (std::size_t b = 0; b < op.buffers.size(); ++b) {
      const std::int64_t width = num_bytes(op.buffers[b].dtype);
      starts_.push_back((margin + offsets(b)) * width);
      const auto bytes = static_cast<std::size_t>((numel + 2 * margin) * width + offset_bytes);
      const bool is_written = op.elementwise && op.buffers[b].is_output;
      memory_.emplace_back(bytes + 64,
                           static_cast<std::byte>(is_written ? Margins::plain : margins));
      // from a multiple of 64, so that an offset says how an address is aligned
      bases_.push_back((64 - reinterpret_cast<std::uintptr_t>(memory_.back().data()) % 64) % 64);
      if (!op.buffers[b].is_input) continue;
      const std::vector<std::uint32_t>& input = input_bits(b, first + numel);
      for (std::int64_t i = 0; i < numel; ++i) {
        std::uint32_t bits = input[first + i];
        // One NaN in a chunk hides the rest of the sum, so sums get finite values.
        if (!op.elementwise && (bits >> 23 & 0xFFU) == 0xFFU) bits &= 0xFF7FFFFFU;
        if (width < 4)
          bits ^= bits >> 16;  // narrow elements are the low end, which must be mixed equally well
        if (width < 2) bits ^= bits >> 8;
        std::memcpy(data(b) + i * width, &bits, static_cast<std::size_t>(width));
      }
    }
    before_ = memory_;
  }

  void run(const Exec& exec) {
    std::vector<TensorView> views;
    for (std::size_t b = 0; b < op_.buffers.size(); ++b) {
      views.push_back({data(b), op_.buffers[b].dtype, numel_});
    }
    forbid_margins(true);  // detects reads, during the call only
    number_ = op_.run({exec, views, static_cast<std::uint64_t>(first_)});
    forbid_margins(false);
  }

  /// Bits of output b, elements from `first` on.
  const std::byte* output(std::size_t b, std::int64_t first = 0) const {
    return memory_[b].data() + bases_[b] + starts_[b] + first * num_bytes(op_.buffers[b].dtype);
  }
  const Numbers& number() const { return number_; }

  /// True if nothing but the payload of outputs changed.
  bool neighbours_untouched() const {
    for (std::size_t b = 0; b < memory_.size(); ++b) {
      const auto payload = static_cast<std::size_t>(numel_ * num_bytes(op_.buffers[b].dtype));
      const std::size_t begin = bases_[b] + static_cast<std::size_t>(starts_[b]);
      const auto same = [&](std::size_t from, std::size_t to) {
        return std::memcmp(memory_[b].data() + from, before_[b].data() + from, to - from) == 0;
      };
      if (!same(0, begin) || !same(begin + payload, memory_[b].size())) return false;
      if (!op_.buffers[b].is_output && !same(begin, begin + payload)) return false;
    }
    return true;
  }

 private:
  /// Under the address sanitizer accesses around the payload are errors.
  void forbid_margins([[maybe_unused]] bool forbidden) {
#if defined(ZP_ADDRESS_SANITIZER)
    for (std::size_t b = 0; b < memory_.size(); ++b) {
      std::byte* end = data(b) + numel_ * num_bytes(op_.buffers[b].dtype);
      const auto before = static_cast<std::size_t>(data(b) - memory_[b].data());
      const auto after = static_cast<std::size_t>(memory_[b].data() + memory_[b].size() - end);
      for (const auto& [from, bytes] :
           {std::pair(memory_[b].data(), before), std::pair(end, after)}) {
        if (forbidden) ASAN_POISON_MEMORY_REGION(from, bytes);
        if (!forbidden) ASAN_UNPOISON_MEMORY_REGION(from, bytes);
      }
    }
#endif
  }

  std::byte* data(std::size_t b) { return memory_[b].data() + bases_[b] + starts_[b]; }

  const PositionOperation& op_;
  std::int64_t first_, numel_;
  std::vector<std::vector<std::byte>> memory_, before_;
  std::vector<std::size_t> bases_;
  std::vector<std::int64_t> starts_;
  Numbers number_;  ///< returned by the operation
};

inline bool is_nan(DType dtype, std::uint32_t bits) {
  if (dtype == DType::e4m3) return (bits & 0x7FU) == 0x7FU;
  if (dtype == DType::e5m2) return (bits & 0x7FU) > 0x7CU;
  if (dtype == DType::bf16) return (bits & 0x7FFFU) > 0x7F80U;
  if (dtype == DType::fp16) return (bits & 0x7FFFU) > 0x7C00U;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U;
}

/// Elements of the outputs that differ, NaNs being one value (R9).
inline std::int64_t differing(const PositionOperation& op, const Run& expected, std::int64_t from,
                              const Run& actual, std::int64_t numel) {
  std::int64_t count = 0;
  for (std::size_t b = 0; b < op.buffers.size(); ++b) {
    const DType dtype = op.buffers[b].dtype;
    const auto width = static_cast<std::size_t>(num_bytes(dtype));
    if (!op.buffers[b].is_output) continue;
    for (std::int64_t i = 0; i < numel; ++i) {
      std::uint32_t want = 0, got = 0;
      std::memcpy(&want, expected.output(b, from + i), width);
      std::memcpy(&got, actual.output(b, i), width);
      count += want == got || (is_nan(dtype, want) && is_nan(dtype, got)) ? 0 : 1;
    }
  }
  return count;
}

/// The narrowest elements of an operation have the most positions before two vectors are over.
inline std::int64_t offsets_of(const PositionOperation& op) {
  std::int64_t offsets = 0;
  for (const Buffer& buffer : op.buffers)
    offsets = std::max(offsets, offset_bytes / num_bytes(buffer.dtype));
  return offsets;
}

}  // namespace zeroproof::tests
