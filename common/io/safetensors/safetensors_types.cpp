#include "common/io/safetensors/safetensors_types.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace zeroproof {
namespace {

struct DTypeRow {
  std::string_view name;
  std::int64_t num_bytes;
};

/// In the order of SafeDType.
constexpr std::array<DTypeRow, num_safe_dtypes> dtype_rows = {{{"F64", 8},
                                                               {"F32", 4},
                                                               {"F16", 2},
                                                               {"BF16", 2},
                                                               {"F8_E4M3", 1},
                                                               {"F8_E5M2", 1},
                                                               {"I8", 1},
                                                               {"I16", 2},
                                                               {"I32", 4},
                                                               {"I64", 8},
                                                               {"U8", 1},
                                                               {"U16", 2},
                                                               {"U32", 4},
                                                               {"U64", 8},
                                                               {"BOOL", 1},
                                                               {"F8_E8M0", 1}}};

const DTypeRow& row(SafeDType dtype) { return dtype_rows[static_cast<std::size_t>(dtype)]; }

/// Length of the well-formed UTF-8 sequence that `text` starts with, 0 if it starts with none (Unicode 15,
/// table 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80U) return 1;
  if (first < 0xC2U || first > 0xF4U || !tail(1)) return 0;
  if (first < 0xE0U) return 2;
  if (!tail(2)) return 0;
  const unsigned second = byte(1);
  if (first == 0xE0U && second < 0xA0U) return 0;  // overlong
  if (first == 0xEDU && second > 0x9FU) return 0;  // a surrogate
  if (first < 0xF0U) return 3;
  if (first == 0xF0U && second < 0x90U) return 0;  // overlong
  if (first == 0xF4U && second > 0x8FU) return 0;  // above U+10FFFF
  return tail(3) ? 4 : 0;
}

/// C0 and C1 controls and DEL.
bool is_control(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20U || first == 0x7FU;
  return sequence.size() == 2 && first == 0xC2U && static_cast<unsigned char>(sequence[1]) < 0xA0U;
}

}  // namespace

std::string_view name(SafeDType dtype) { return row(dtype).name; }

std::int64_t num_bytes(SafeDType dtype) { return row(dtype).num_bytes; }

SafeDType safe_dtype(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return SafeDType::f32;
    case DType::bf16:
      return SafeDType::bf16;
    case DType::fp16:
      return SafeDType::f16;
    case DType::fp64:
      return SafeDType::f64;
    case DType::u32:
      return SafeDType::u32;
    case DType::u64:
      return SafeDType::u64;
    case DType::e4m3:
      return SafeDType::f8_e4m3;
    case DType::e5m2:
      return SafeDType::f8_e5m2;
    case DType::u16:
      return SafeDType::u16;
    case DType::e8m0:
      return SafeDType::f8_e8m0;
  }
  return SafeDType::u8;
}

std::optional<DType> buffer_dtype(SafeDType dtype) {
  for (const DType known : {DType::fp32, DType::bf16, DType::fp16, DType::fp64, DType::u32,
                            DType::u64, DType::e4m3, DType::e5m2, DType::u16, DType::e8m0}) {
    if (safe_dtype(known) == dtype) return known;
  }
  return std::nullopt;
}

std::optional<SafeDType> parse_safe_dtype(std::string_view text) {
  for (int i = 0; i < num_safe_dtypes; ++i) {
    if (row(static_cast<SafeDType>(i)).name == text) return static_cast<SafeDType>(i);
  }
  return std::nullopt;
}

const SafeTensor* SafetensorsHeader::find(std::string_view tensor_name) const {
  const auto at = std::lower_bound(
      by_name.begin(), by_name.end(), tensor_name,
      [&](std::uint32_t index, std::string_view text) { return tensors[index].name < text; });
  return at != by_name.end() && tensors[*at].name == tensor_name ? &tensors[*at] : nullptr;
}

const std::string* SafetensorsHeader::index_names() {
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0U);
  const auto name_of = [&](std::uint32_t index) -> const std::string& {
    return tensors[index].name;
  };
  std::sort(by_name.begin(), by_name.end(),
            [&](std::uint32_t a, std::uint32_t b) { return name_of(a) < name_of(b); });
  const auto twice = std::adjacent_find(
      by_name.begin(), by_name.end(),
      [&](std::uint32_t a, std::uint32_t b) { return name_of(a) == name_of(b); });
  return twice == by_name.end() ? nullptr : &name_of(*twice);
}

std::string safetensors_name_problem(std::string_view name, const SafetensorsLimits& limits) {
  if (name.empty()) return "is empty";
  if (name == "__metadata__") return "is reserved for the metadata";
  if (static_cast<std::int64_t>(name.size()) > limits.name_bytes) {
    return "has " + std::to_string(name.size()) + " bytes, more than " +
           std::to_string(limits.name_bytes);
  }
  while (!name.empty()) {
    const std::size_t length = sequence_length(name);
    if (length == 0) return "is not UTF-8";
    if (is_control(name.substr(0, length))) return "contains a control character";
    name.remove_prefix(length);
  }
  return {};
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t longest = 100;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown = "'";
  while (!name.empty()) {
    if (shown.size() > longest) return shown + "...'";
    const std::size_t length = sequence_length(name);
    if (length > 0 && !is_control(name.substr(0, length))) {
      shown += name.substr(0, length);
      name.remove_prefix(length);
      continue;
    }
    const auto byte = static_cast<unsigned char>(name[0]);
    shown += "\\x";
    shown += digits[byte >> 4U];
    shown += digits[byte & 15U];
    name.remove_prefix(1);
  }
  return shown + "'";
}

}  // namespace zeroproof
