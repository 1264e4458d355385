#pragma once
// Comparison of the outputs of an implementation with those of the oracle: bits, and one NaN class
// (R9).

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "oracle_inputs.hpp"
#include "oracle_operations.hpp"

namespace zeroproof::oracle {

inline std::uint32_t load_bits(DType type, const void* data, std::int64_t i) {
  if (num_bytes(type) == 1) return static_cast<const std::uint8_t*>(data)[i];
  if (num_bytes(type) == 2) return static_cast<const std::uint16_t*>(data)[i];
  return static_cast<const std::uint32_t*>(data)[i];
}

inline bool is_nan(DType type, std::uint32_t bits) {
  if (type == DType::bf16) return (bits & 0x7FFFU) > 0x7F80U;
  if (type == DType::fp16) return (bits & 0x7FFFU) > 0x7C00U;
  if (type == DType::e4m3) return (bits & 0x7FU) == 0x7FU;
  if (type == DType::e5m2) return (bits & 0x7FU) > 0x7CU;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U;
}

inline bool same(DType type, std::uint32_t a, std::uint32_t b) {
  return a == b || (is_nan(type, a) && is_nan(type, b));
}

/// Buffers for the operands of one operation, with canary bytes on both sides of every one.
class Workspace {
 public:
  static constexpr std::int64_t max_offset = 32;  ///< twice the widest vector of fp32

  /// Operand k (inputs first, then outputs) starts `offset(k)` elements into its buffer; all other
  /// elements are canaries.
  template <class Offset>
  Operands prepare(const Operation& op, std::int64_t numel, Offset&& offset) {
    Operands o;
    o.numel = numel;
    for (int i = 0; i < op.inputs; ++i) {
      const auto k = static_cast<std::size_t>(i);
      o.in[k] = prepare(in_[k], op.in_type, numel, offset(i));
    }
    for (std::size_t k = 0; k < op.out_types.size(); ++k) {
      o.out[k] = prepare(out_[k], op.out_types[k], numel, offset(op.inputs + static_cast<int>(k)));
    }
    return o;
  }

  Operands prepare(const Operation& op, std::int64_t numel) {
    return prepare(op, numel, [](int) { return 0; });
  }

  /// True if all memory outside of the operands has its canaries, and inputs that are not outputs
  /// too equal those of `original`.
  bool untouched(const Operation& op, const Operands& o, const Operands& original) const {
    bool in_place = false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs); ++k) {
      const auto bytes = static_cast<std::size_t>(o.numel * num_bytes(op.in_type));
      if (!canaries_hold(in_[k], o.in[k], bytes)) return false;
      if (o.in[k] == o.out[0]) {
        in_place = true;
      } else if (bytes > 0 && std::memcmp(o.in[k], original.in[k], bytes) != 0) {
        return false;
      }
    }
    for (std::size_t k = 0; k < op.out_types.size(); ++k) {
      const auto bytes = static_cast<std::size_t>(o.numel * num_bytes(op.out_types[k]));
      const bool elsewhere = in_place && k == 0;
      if (!canaries_hold(out_[k], elsewhere ? nullptr : o.out[k], elsewhere ? 0 : bytes))
        return false;
    }
    return true;
  }

 private:
  using Bytes = std::vector<std::byte>;
  static constexpr std::int64_t margin = 32;  // canary elements, at least, on either side
  static constexpr std::byte canary{0xA5};

  static void* prepare(Bytes& bytes, DType type, std::int64_t numel, std::int64_t offset) {
    bytes.assign(static_cast<std::size_t>((numel + 2 * margin + max_offset) * num_bytes(type)),
                 canary);
    return bytes.data() + (margin + offset) * num_bytes(type);
  }

  static bool canaries_hold(const Bytes& bytes, const void* data, std::size_t size) {
    const auto is_canary = [](std::byte byte) { return byte == canary; };
    if (data == nullptr) return std::ranges::all_of(bytes, is_canary);
    const std::byte* first = static_cast<const std::byte*>(data);
    return std::all_of(bytes.data(), first, is_canary) &&
           std::all_of(first + size, bytes.data() + bytes.size(), is_canary);
  }

  std::array<Bytes, most_operands> in_, out_;
};

/// Writes elements first, first + 1, ... of a family to the inputs. Narrow inputs get the low bits
/// of the pattern.
inline void fill_inputs(const Operation& op, Family family, std::uint64_t first,
                        const Operands& o) {
  const std::int64_t size = num_bytes(op.in_type);
  for (std::int64_t i = 0; i < o.numel; ++i) {
    const Element element = make_element(family, first + static_cast<std::uint64_t>(i));
    for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs); ++k) {
      const auto bits = std::bit_cast<std::uint32_t>(element[k]);
      void* target = static_cast<std::byte*>(o.in[k]) + size * i;
      if (size == 4) std::memcpy(target, &bits, 4);
      if (size == 2) *static_cast<std::uint16_t*>(target) = static_cast<std::uint16_t>(bits);
      if (size == 1) *static_cast<std::uint8_t*>(target) = static_cast<std::uint8_t>(bits);
    }
  }
}

/// Copies inputs to another layout.
inline void copy_inputs(const Operation& op, const Operands& from, const Operands& to) {
  const auto bytes = static_cast<std::size_t>(from.numel * num_bytes(op.in_type));
  for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs) && bytes > 0; ++k) {
    std::memcpy(to.in[k], from.in[k], bytes);
  }
}

/// The position of one piece of the comparison.
struct Place {
  const Operation* op;
  const Implementation* implementation;
  Family family;
  std::uint64_t first;  ///< index in the family of element 0
  int set;
};

/// Counts the differing elements of all threads and stores the text of the first one.
class Tally {
 public:
  /// expected and actual have the same inputs.
  void compare(const Place& place, const Operands& expected, const Operands& actual,
               bool expected_found, bool actual_found) {
    std::int64_t count = 0;
    std::int64_t first = -1;
    for (std::size_t k = 0; k < place.op->out_types.size(); ++k) {
      const DType type = place.op->out_types[k];
      const auto bytes = static_cast<std::size_t>(expected.numel * num_bytes(type));
      if (bytes == 0 || std::memcmp(expected.out[k], actual.out[k], bytes) == 0) continue;
      for (std::int64_t i = 0; i < expected.numel; ++i) {
        if (same(type, load_bits(type, expected.out[k], i), load_bits(type, actual.out[k], i)))
          continue;
        ++count;
        if (first < 0 || i < first) first = i;
      }
    }
    if (expected_found != actual_found) ++count;
    if (count == 0) return;
    const std::lock_guard lock(mutex_);
    if (differ_ == 0)
      text_ = describe(place, expected, actual, first, expected_found, actual_found);
    differ_ += count;
  }

  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (differ_++ == 0) text_ = text;
  }

  std::int64_t differ() const { return differ_; }
  const std::string& first_difference() const { return text_; }

 private:
  static std::string describe(const Place& place, const Operands& expected, const Operands& actual,
                              std::int64_t i, bool expected_found, bool actual_found) {
    const Operation& op = *place.op;
    std::string text = op.name + ": " + place.implementation->name +
                       " differs from the oracle in family " + name(place.family) + ", " +
                       op.describe(place.set);
    if (expected_found != actual_found) {
      text += std::string("\n  found_inf: oracle ") + (expected_found ? "1" : "0") +
              " implementation " + (actual_found ? "1" : "0") + ", elements from " +
              std::to_string(place.first) + ", " + std::to_string(expected.numel) + " of them";
    }
    if (i < 0) return text;
    text += "\n  index " + std::to_string(place.first + static_cast<std::uint64_t>(i)) + " (" +
            std::to_string(i) + " of " + std::to_string(expected.numel) + ")\n  inputs";
    const auto hex = [&](DType type, const void* data) {
      char word[16];
      const int digits = static_cast<int>(2 * num_bytes(type));
      std::snprintf(word, sizeof word, " %0*X", digits, load_bits(type, data, i));
      text += word;
    };
    for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs); ++k)
      hex(op.in_type, expected.in[k]);
    text += "\n  oracle";
    for (std::size_t k = 0; k < op.out_types.size(); ++k) hex(op.out_types[k], expected.out[k]);
    text += "\n  implementation  ";
    for (std::size_t k = 0; k < op.out_types.size(); ++k) hex(op.out_types[k], actual.out[k]);
    return text;
  }

  std::mutex mutex_;
  std::int64_t differ_ = 0;
  std::string text_;
};

}  // namespace zeroproof::oracle
