#pragma once
// Comparing what a twin wrote with what the oracle wrote: bits, and one NaN class (R9).

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
  if (num_bytes(type) == 2) return static_cast<const std::uint16_t*>(data)[i];
  return static_cast<const std::uint32_t*>(data)[i];
}

inline bool is_nan(DType type, std::uint32_t bits) {
  if (type == DType::bf16) return (bits & 0x7FFFU) > 0x7F80U;
  if (type == DType::fp16) return (bits & 0x7FFFU) > 0x7C00U;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U;
}

inline bool same(DType type, std::uint32_t a, std::uint32_t b) {
  return a == b || (is_nan(type, a) && is_nan(type, b));
}

/// Buffers for the operands of one operation, each with `margin` elements of canary bytes on both sides.
class Workspace {
 public:
  static constexpr std::int64_t margin = 64;
  static constexpr unsigned char canary = 0xA5;

  void prepare(const Operation& op, std::int64_t numel) {
    for (int i = 0; i < op.inputs; ++i) resize(in_[static_cast<std::size_t>(i)], op.in_type, numel);
    for (std::size_t i = 0; i < op.out_types.size(); ++i) {
      resize(out_[i], op.out_types[i], numel);
      resize(expected_[i], op.out_types[i], numel);
    }
  }

  void fill_canaries() {
    for (auto* group : {&in_, &out_}) {
      for (Bytes& bytes : *group) std::memset(bytes.data(), canary, bytes.size());
    }
  }

  /// Operand k starts at its offset; outputs are numbered after the inputs.
  template <class Offset>
  Operands operands(const Operation& op, std::int64_t numel, bool for_oracle, Offset&& offset) {
    Operands o;
    o.numel = numel;
    for (int i = 0; i < op.inputs; ++i) {
      o.in[static_cast<std::size_t>(i)] = at(in_[static_cast<std::size_t>(i)], op.in_type, offset(i));
    }
    for (std::size_t i = 0; i < op.out_types.size(); ++i) {
      auto& group = for_oracle ? expected_ : out_;
      o.out[i] = at(group[i], op.out_types[i], for_oracle ? 0 : offset(op.inputs + static_cast<int>(i)));
    }
    return o;
  }

  /// True if everything outside of the outputs' elements still holds canaries, and inputs what `inputs` says.
  bool untouched(const Operation& op, const Operands& o, const std::array<std::vector<std::byte>, 4>& inputs) const {
    for (int i = 0; i < op.inputs; ++i) {
      const auto k = static_cast<std::size_t>(i);
      if (o.in[k] != o.out[0] && in_[k] != inputs[k]) return false;
      if (o.in[k] == o.out[0] && !canaries_hold(in_[k], op.in_type, o.in[k], o.numel)) return false;
    }
    for (std::size_t i = 0; i < op.out_types.size(); ++i) {
      const bool elsewhere = std::ranges::find(o.in, o.out[i]) != o.in.end();
      if (!canaries_hold(out_[i], op.out_types[i], elsewhere ? nullptr : o.out[i], o.numel)) return false;
    }
    return true;
  }

  const std::array<std::vector<std::byte>, 4>& inputs() const { return in_; }

 private:
  using Bytes = std::vector<std::byte>;

  static void resize(Bytes& bytes, DType type, std::int64_t numel) {
    bytes.resize(static_cast<std::size_t>((numel + 2 * margin) * num_bytes(type)));
  }

  static void* at(Bytes& bytes, DType type, std::int64_t offset) {
    return bytes.data() + (margin / 2 + offset) * num_bytes(type);
  }

  static bool canaries_hold(const Bytes& bytes, DType type, const void* data, std::int64_t numel) {
    const auto* first = static_cast<const std::byte*>(data);
    const std::byte* last = first + (data == nullptr ? 0 : numel * num_bytes(type));
    for (const std::byte& byte : bytes) {
      if (!(&byte >= first && &byte < last) && byte != std::byte{canary}) return false;
    }
    return true;
  }

  std::array<Bytes, 4> in_, out_, expected_;
};

/// Writes elements first, first + 1, ... of a family to the inputs. 16-bit inputs take the low half of the pattern.
inline void fill_inputs(const Operation& op, Family family, std::uint64_t first, const Operands& o) {
  for (std::int64_t i = 0; i < o.numel; ++i) {
    const Quad quad = make_quad(family, first + static_cast<std::uint64_t>(i));
    for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs); ++k) {
      if (op.in_type == DType::fp32) {
        std::memcpy(static_cast<std::byte*>(o.in[k]) + 4 * i, &quad[k], 4);
      } else {
        static_cast<std::uint16_t*>(o.in[k])[i] =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(quad[k]));
      }
    }
  }
}

/// Where a piece of the comparison stands.
struct Place {
  const Operation* op;
  const Twin* twin;
  Family family;
  std::uint64_t first;  ///< index in the family of element 0
  int set;
};

/// Counts the differing elements of all threads and keeps the text of the first one.
class Tally {
 public:
  /// expected and actual have the same inputs.
  void compare(const Place& place, const Operands& expected, const Operands& actual, bool expected_found,
               bool actual_found) {
    std::int64_t count = 0;
    std::int64_t first = -1;
    for (std::size_t k = 0; k < place.op->out_types.size(); ++k) {
      const DType type = place.op->out_types[k];
      const auto bytes = static_cast<std::size_t>(expected.numel * num_bytes(type));
      if (bytes == 0 || std::memcmp(expected.out[k], actual.out[k], bytes) == 0) continue;
      for (std::int64_t i = 0; i < expected.numel; ++i) {
        if (same(type, load_bits(type, expected.out[k], i), load_bits(type, actual.out[k], i))) continue;
        ++count;
        if (first < 0 || i < first) first = i;
      }
    }
    if (expected_found != actual_found) ++count;
    if (count == 0) return;
    const std::lock_guard lock(mutex_);
    if (differ_ == 0) text_ = describe(place, expected, actual, first, expected_found, actual_found);
    differ_ += count;
  }

  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (differ_++ == 0) text_ = text;
  }

  std::int64_t differ() const { return differ_; }
  const std::string& first_difference() const { return text_; }

 private:
  static std::string describe(const Place& place, const Operands& expected, const Operands& actual, std::int64_t i,
                              bool expected_found, bool actual_found) {
    const Operation& op = *place.op;
    std::string text = std::string(op.name) + ": " + place.twin->name + " differs from the oracle in family " +
                       name(place.family) + " " + describe_scalars(place.set);
    if (expected_found != actual_found) {
      text += std::string("\n  found_inf: oracle ") + (expected_found ? "1" : "0") + " twin " +
              (actual_found ? "1" : "0") + ", elements from " + std::to_string(place.first) + ", " +
              std::to_string(expected.numel) + " of them";
    }
    if (i < 0) return text;
    text += "\n  index " + std::to_string(place.first + static_cast<std::uint64_t>(i)) + " (" + std::to_string(i) +
            " of " + std::to_string(expected.numel) + ")\n  inputs";
    const auto hex = [&](DType type, const void* data) {
      char word[16];
      std::snprintf(word, sizeof word, num_bytes(type) == 2 ? " %04X" : " %08X", load_bits(type, data, i));
      text += word;
    };
    for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs); ++k) hex(op.in_type, expected.in[k]);
    text += "\n  oracle";
    for (std::size_t k = 0; k < op.out_types.size(); ++k) hex(op.out_types[k], expected.out[k]);
    text += "\n  twin  ";
    for (std::size_t k = 0; k < op.out_types.size(); ++k) hex(op.out_types[k], actual.out[k]);
    return text;
  }

  std::mutex mutex_;
  std::int64_t differ_ = 0;
  std::string text_;
};

}  // namespace zeroproof::oracle
