#include "tests/common/io/safetensors_hostile.hpp"

#include "tests/common/io/safetensors_build.hpp"

namespace zeroproof::tests {
namespace {

const std::string plain = entry("a", "U8", "[4]", "[0,4]");

std::string object(const std::string& entries) { return "{" + entries + "}"; }

/// One tensor of these parts over four bytes of data.
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return safetensors_bytes(object(entry("a", dtype, shape, offsets)), zeros(4));
}

std::string named(const std::string& name) {
  return safetensors_bytes(object(entry(name, "U8", "[4]", "[0,4]")), zeros(4));
}

std::string text(const std::string& header) { return safetensors_bytes(header, zeros(4)); }

}  // namespace

std::vector<HostileCase> hostile_lengths() {
  const std::string good = small_file();
  return {
      {"empty file", "", "has 0 bytes"},
      {"seven bytes", length_bytes(2).substr(0, 7), "has 7 bytes"},
      {"length only", length_bytes(2), "only 0 more"},
      {"length 0", length_bytes(0) + "{}", "0 bytes long"},
      {"length 1", length_bytes(1) + "{}", "1 bytes long"},
      {"length beyond the file", length_bytes(1000) + "{}",
       "1000 bytes long but the file has only 2"},
      {"length 2^53 + 1", length_bytes((std::uint64_t{1} << 53) + 1) + "{}",
       "9007199254740993 bytes"},
      {"length 2^63", length_bytes(std::uint64_t{1} << 63) + "{}", "9223372036854775808 bytes"},
      {"length 2^64 - 1", length_bytes(~std::uint64_t{0}) + "{}", "18446744073709551615 bytes"},
      {"length 2^64 - 8", length_bytes(~std::uint64_t{7}) + "{}", "18446744073709551608 bytes"},
      {"big-endian length", std::string("\0\0\0\0\0\0\0\x08{}      ", 16),
       "bytes long but the file has only 8"},
      {"cut in the header", good.substr(0, 60), "truncated"},
      {"cut in the data", good.substr(0, good.size() - 1),
       "ends at data byte 26 but the file has 25"},
      {"one byte more", good + "!", "1 bytes follow"},
      {"another file behind", good + good, "bytes follow the last tensor"},
      {"a zip archive", "PK\x03\x04" + std::string(40, 'x'), "bytes long but"},
      {"a pickle", "\x80\x02}q" + std::string(40, '\0'), "bytes long but"},
      {"data without tensors", safetensors_bytes("{}", "data"), "4 bytes follow"},
  };
}

std::vector<HostileCase> hostile_json() {
  const std::string nul_inside = object(plain) + std::string("\0hidden}", 8);
  return {
      {"array as header", text("[1,2]"), "does not begin with '{'"},
      {"text as header", text("\"a\""), "does not begin with '{'"},
      {"null as header", text("null"), "does not begin with '{'"},
      {"leading space", text(" " + object(plain)), "does not begin with '{'"},
      {"leading line break", text("\n" + object(plain)), "does not begin with '{'"},
      {"byte order mark", text("\xEF\xBB\xBF" + object(plain)), "byte order mark"},
      {"line break as padding", unpadded_bytes(object(plain) + "\n", zeros(4)),
       "does not end with '}'"},
      {"NUL as padding", unpadded_bytes(object(plain) + zeros(2), zeros(4)), "is NUL"},
      {"NUL hides the rest", unpadded_bytes(nul_inside, zeros(4)), "is NUL"},
      {"NUL in a name", text(object(entry(std::string("a\0b", 3), "U8", "[4]", "[0,4]"))),
       "is NUL"},
      {"open object", text("{" + plain), "is not JSON"},
      {"a word", text("{\"a\":@}"), "byte 13 is not JSON"},
      {"two objects", text(object(plain) + "{}"), "is not JSON"},
      {"trailing comma", text("{" + plain + ",}"), "is not JSON"},
      {"comment", text("{/* */" + plain + "}"), "is not JSON"},
      {"bad UTF-8", named("\xC3\x28"), "UTF-8"},
      {"overlong UTF-8", named("\xC0\xAF"), "UTF-8"},
      {"surrogate as UTF-8", named("\xED\xA0\x80"), "UTF-8"},
      {"lone surrogate escape", named("\\ud800"), "is not JSON"},
      {"raw control character", named("a\tb"), "is not JSON"},
      {"deep arrays", text("{\"a\":" + std::string(5000, '[') + "}"),
       "an array instead of an object"},
      {"deep objects", text([] {
         std::string header;
         for (int i = 0; i < 1000; ++i) header += "{\"a\":";
         return header + "}";
       }()),
       "has the key 'a'"},
      {"number as entry", text("{\"a\":1}"), "a number instead of an object"},
      {"null as entry", text("{\"a\":null}"), "null instead of an object"},
      {"true as entry", text("{\"a\":true}"), "true or false instead of an object"},
      {"metadata as text", text("{\"__metadata__\":\"x\"," + plain + "}"),
       "a text instead of an object"},
      {"metadata number", text("{\"__metadata__\":{\"k\":1}," + plain + "}"),
       "'k' holds a number instead of a text"},
      {"metadata nested", text("{\"__metadata__\":{\"k\":{}}," + plain + "}"),
       "an object instead of a text"},
      {"metadata null", text("{\"__metadata__\":{\"k\":null}," + plain + "}"),
       "null instead of a text"},
      {"metadata key twice", text("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," + plain + "}"),
       "'k' appears twice"},
      {"metadata twice", text("{\"__metadata__\":{},\"__metadata__\":{}," + plain + "}"),
       "__metadata__ appears twice"},
  };
}

std::vector<HostileCase> hostile_tensors() {
  const auto two = [](std::string_view first, std::string_view second, std::size_t bytes) {
    return safetensors_bytes(
        object(entry("a", "U8", "[4]", first) + "," + entry("b", "U8", "[4]", second)),
        zeros(bytes));
  };
  std::string many_dims = "[4";
  for (int i = 0; i < 64; ++i) many_dims += ",1";
  many_dims += "]";
  return {
      {"unknown dtype", one("F31", "[1]", "[0,4]"), "dtype of tensor 'a' is 'F31'"},
      {"lower-case dtype", one("f32", "[1]", "[0,4]"), "is 'f32'"},
      {"dtype as number", text("{\"a\":{\"dtype\":4,\"shape\":[4],\"data_offsets\":[0,4]}}"),
       "a number instead of a text"},
      {"no dtype", text("{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}"), "has no dtype"},
      {"no shape", text("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}"), "has no shape"},
      {"no data_offsets", text("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}"), "has no data_offsets"},
      {"unknown key", text("{\"a\":{\"dtype\":\"U8\",\"stride\":[1]}}"), "has the key 'stride'"},
      {"key twice",
       text("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}"),
       "shape twice"},
      {"negative dimension", one("U8", "[-4]", "[0,4]"), "has -4"},
      {"two negative dimensions", one("U8", "[-2,-2]", "[0,4]"), "has -2"},
      {"minus zero", one("U8", "[-0]", "[0,0]"), "shape of tensor 'a' has 0"},
      {"fraction", one("U8", "[4.0]", "[0,4]"), "has 4.0"},
      {"exponent", one("U8", "[4e0]", "[0,4]"), "has 4e0"},
      {"huge exponent", one("U8", "[1e999]", "[0,4]"), "is not JSON"},
      {"dimension as text", one("U8", "[\"4\"]", "[0,4]"), "a text instead of whole numbers"},
      {"shape as number", one("U8", "4", "[0,4]"), "a number instead of an array"},
      {"nested shape", one("U8", "[[4]]", "[0,4]"), "an array instead of whole numbers"},
      {"dimension 2^53 + 1", one("U8", "[9007199254740993]", "[0,4]"), "has 9007199254740993"},
      {"dimension 2^63", one("U8", "[9223372036854775808]", "[0,4]"), "has 9223372036854775808"},
      {"dimension 2^64", one("U8", "[18446744073709551616]", "[0,4]"), "has 18446744073709551616"},
      {"65 dimensions", one("U8", many_dims, "[0,4]"), "more than 64 dimensions"},
      {"shape overflows to 4", one("U8", "[4294967296,4294967297,4]", "[0,4]"),
       "more than 2^53 bytes"},
      {"shape overflows to 0", one("U8", "[4294967296,4294967296]", "[0,0]"),
       "more than 2^53 bytes"},
      {"overflow times 0", one("U8", "[9007199254740992,9007199254740992,0]", "[0,0]"),
       "more than 2^53 bytes"},
      {"0 times overflow", one("U8", "[0,9007199254740992,9007199254740992]", "[0,0]"),
       "more than 2^53 bytes"},
      {"bytes overflow", one("F64", "[2305843009213693]", "[0,4]"), "more than 2^53 bytes"},
      {"too few bytes", one("F32", "[2]", "[0,4]"), "has 4 bytes but its shape needs 8"},
      {"too many bytes", one("U8", "[3]", "[0,4]"), "has 4 bytes but its shape needs 3"},
      {"half an element", one("F32", "[]", "[0,3]"), "has 3 bytes but its shape needs 4"},
      {"bytes of an empty tensor", one("U8", "[0]", "[0,4]"), "its shape needs 0"},
      {"no offsets", one("U8", "[4]", "[]"), "0 of two numbers"},
      {"one offset", one("U8", "[4]", "[4]"), "1 of two numbers"},
      {"three offsets", one("U8", "[4]", "[0,4,8]"), "more than two numbers"},
      {"reversed offsets", one("U8", "[4]", "[4,0]"), "before it begins"},
      {"negative offset", one("U8", "[4]", "[-4,0]"), "has -4"},
      {"offset 2^64 - 4", one("U8", "[4]", "[18446744073709551612,0]"), "has 18446744073709551612"},
      {"offsets beyond the file", one("U8", "[8]", "[0,8]"),
       "ends at data byte 8 but the file has 4"},
      {"offsets far beyond", one("U8", "[9007199254740992]", "[0,9007199254740992]"),
       "but the file has 4"},
      {"overlap", two("[0,4]", "[2,6]", 6), "'a' and 'b' overlap"},
      {"same place", two("[0,4]", "[0,4]", 4), "overlap"},
      {"gap at the front", two("[1,5]", "[5,9]", 9), "data bytes 0 to 1"},
      {"gap between", two("[0,4]", "[5,9]", 9), "data bytes 4 to 5"},
      {"empty tensor inside another",
       safetensors_bytes(object(plain + "," + entry("b", "U8", "[0]", "[2,2]")), zeros(4)),
       "overlap"},
      {"empty tensor behind the end",
       safetensors_bytes(object(plain + "," + entry("b", "U8", "[0]", "[9,9]")), zeros(4)),
       "data bytes 4 to 9"},
      {"misaligned",
       safetensors_bytes(
           object(entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F32", "[1]", "[1,5]")),
           zeros(5)),
       "not a multiple of its 4-byte"},
      {"header not aligned", unpadded_bytes(object(entry("a", "F64", "[1]", "[0,8]")), zeros(8)),
       "not a multiple of its 8-byte"},
      {"name twice",
       safetensors_bytes(object(plain + "," + entry("a", "U8", "[4]", "[4,8]")), zeros(8)),
       "'a' appears twice"},
      {"name twice, once escaped",
       safetensors_bytes(object(plain + "," + entry("\\u0061", "U8", "[4]", "[4,8]")), zeros(8)),
       "'a' appears twice"},
      {"empty name", named(""), "is empty"},
      {"escaped NUL in a name", named("a\\u0000b"), "'a\\x00b' contains a control"},
      {"escape sequence in a name", named("\\u001b[31m"), "'\\x1b[31m' contains a control"},
      {"C1 control in a name", named("a\xC2\x9B"), "contains a control"},
      {"DEL in a name", named("\x7F"), "contains a control"},
      {"long name", named(std::string(1025, 'x')), "1025 bytes, more than 1024"},
  };
}

std::vector<HostileCase> hostile_sizes() {
  std::string many = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    many += (i == 0 ? "" : ",") + entry(std::to_string(i), "U8", "[0]", "[0,0]");
  }
  const std::string million = safetensors_bytes(many + "}", "");
  std::string dims = "[1";
  for (int i = 0; i < 100'000; ++i) dims += ",1";
  std::string metadata = "{\"__metadata__\":{";
  for (int i = 0; i < 70'000; ++i)
    metadata += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  SafetensorsLimits raised;
  raised.header_bytes = largest_safetensors_header;
  SafetensorsLimits beyond;
  beyond.header_bytes = std::int64_t{1} << 40;
  const std::int64_t cap = std::int64_t{16} << 20;
  return {
      {"10^6 empty tensors", million, "more than 16777216"},
      {"10^6 empty tensors, cap raised", million, "more than 524288 tensors", raised},
      {"10^5 dimensions", one("U8", dims + "]", "[0,4]"), "more than 64 dimensions"},
      {"70,000 metadata entries", text(metadata + "}}"), "more than 65536 entries"},
      {"one byte over the cap",
       unpadded_bytes("{}" + std::string(static_cast<std::size_t>(cap) - 1, ' '), ""),
       "more than 16777216"},
      // NOLINTNEXTLINE(bugprone-string-constructor)
      {"over the format's own cap", unpadded_bytes("{}" + std::string(100'000'000, ' '), ""),
       "more than 100000000", beyond},
      {"a name of 3 MiB", named(std::string(3 << 20, 'x')), "more than 1024"},
      {"a text of 15 MiB that does not end",
       text("{\"__metadata__\":{\"k\":\"" + std::string(15 << 20, 'x') + "}"), "a text of 157286"},
      {"a text of 15 MiB of escapes",
       text("{\"__metadata__\":{\"k\":\"" + std::string(15 << 20, '\\') + "\"}}"),
       "a text of 157286"},
      {"a text of 4 MiB that does not end",
       text("{\"__metadata__\":{\"k\":\"" + std::string((4 << 20) - 10, 'x') + "}"), "is not JSON"},
      {"a number of 15 MiB", one("U8", "[" + std::string(15 << 20, '7') + "]", "[0,4]"),
       "a number or word of 15728640"},
      {"a number of 65 digits", one("U8", "[" + std::string(65, '7') + "]", "[0,4]"),
       "a number or word of 65"},
      {"15 MiB of arrays", text("{\"a\":" + std::string(15 << 20, '[') + "}"), "an array instead"},
      {"15 MiB of one broken text", text("{\"" + std::string(15 << 20, 'x') + "\n\"}"),
       "a text of 15728641"},
  };
}

}  // namespace zeroproof::tests
