// Files are read back as written: every element type, odd shapes, any order, pieces of any size.

#include "common/io/safetensors/safetensors.hpp"

#include <doctest.h>

#include <sys/stat.h>

#include <cstring>

#include "common/base/error.hpp"
#include "tests/common/io/safetensors_build.hpp"
#include "tests/support/temporary_folder.hpp"

namespace safetensors_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

std::vector<std::byte> pattern(std::int64_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 37 + i / 251 + seed);
  return bytes;
}

std::int64_t bytes_of(const SafeTensorSpec& spec) {
  return *safetensors_numel(spec.shape) * num_bytes(spec.dtype);
}

std::vector<std::byte> read_all(const SafetensorsReader& reader, const SafeTensor& tensor) {
  std::vector<std::byte> bytes(tensor.num_bytes());
  reader.read(tensor, 0, bytes);
  return bytes;
}

/// Every element type with every odd shape.
std::vector<SafeTensorSpec> all_specs() {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {}, {1}, {7}, {0}, {3, 0, 5}, {2, 1, 3}, {17, 129}, {1025}, {2, 3, 1, 2, 5}};
  std::vector<SafeTensorSpec> specs;
  for (int d = 0; d < num_safe_dtypes; ++d) {
    const auto dtype = static_cast<SafeDType>(d);
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      specs.push_back({std::string(name(dtype)) + "." + std::to_string(s), dtype, shapes[s]});
    }
  }
  return specs;
}

void write_file(const std::string& path, const std::vector<SafeTensorSpec>& specs,
                std::size_t piece) {
  SafetensorsWriter writer(path, specs, {{"a \"key\"", "a\nvalue \xC3\xA9"}, {"", ""}});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::byte> bytes =
        pattern(bytes_of(specs[i]), static_cast<unsigned>(specs[i].name.size()));
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      writer.write(specs[i].name,
                   Span<const std::byte>(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
  }
  writer.finish();
}

}  // namespace

TEST_CASE("safetensors: element types have their names and sizes") {
  int sum = 0;
  for (int d = 0; d < num_safe_dtypes; ++d) {
    const auto dtype = static_cast<SafeDType>(d);
    CHECK(parse_safe_dtype(name(dtype)) == dtype);
    sum += static_cast<int>(num_bytes(dtype));
  }
  CHECK(sum == 3 * 8 + 3 * 4 + 4 * 2 + 6 * 1);
  CHECK(num_bytes(SafeDType::bf16) == 2);
  CHECK(num_bytes(SafeDType::f8_e4m3) == 1);
  CHECK(name(SafeDType::boolean) == "BOOL");
  CHECK_FALSE(parse_safe_dtype("F8"));
  CHECK_FALSE(parse_safe_dtype(""));
}

TEST_CASE("safetensors: round trip of every element type and odd shapes, in pieces of any size") {
  const TemporaryFolder folder;
  const std::vector<SafeTensorSpec> specs = all_specs();
  const std::string path = folder.file("a file.safetensors");
  write_file(path, specs, 1000);
  const SafetensorsReader reader = SafetensorsReader::open(path);
  CHECK(reader.header().tensors.size() == specs.size());
  CHECK(reader.metadata().at("a \"key\"") == "a\nvalue \xC3\xA9");
  CHECK(reader.metadata().at("").empty());
  CHECK(reader.header().data_begin % 8 == 0);
  for (const SafeTensorSpec& spec : specs) {
    CAPTURE(spec.name);
    const SafeTensor* tensor = reader.find(spec.name);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->dtype == spec.dtype);
    CHECK(tensor->shape == spec.shape);
    CHECK(tensor->numel() == *safetensors_numel(spec.shape));
    const std::vector<std::byte> expected =
        pattern(bytes_of(spec), static_cast<unsigned>(spec.name.size()));
    CHECK(read_all(reader, *tensor) == expected);
    for (const std::int64_t chunk : {1, 5, 64, 1000, 1 << 20}) {
      std::vector<std::byte> joined;
      reader.for_each_chunk(
          *tensor,
          [&](Span<const std::byte> piece) {
            CHECK(static_cast<std::int64_t>(piece.size()) % num_bytes(spec.dtype) == 0);
            CHECK(static_cast<std::int64_t>(piece.size()) <=
                  std::max(chunk, num_bytes(spec.dtype)));
            joined.insert(joined.end(), piece.begin(), piece.end());
          },
          chunk);
      CHECK(joined == expected);
    }
  }
  CHECK(reader.find("F32") == nullptr);
  CHECK(reader.find("") == nullptr);
  CHECK(reader.find("zzz") == nullptr);
}

TEST_CASE("safetensors: the same tensors give the same bytes, in any order") {
  const TemporaryFolder folder;
  std::vector<SafeTensorSpec> specs = all_specs();
  write_file(folder.file("one"), specs, 1 << 20);
  std::reverse(specs.begin(), specs.end());
  write_file(folder.file("two"), specs, 3);
  CHECK(folder.read("one") == folder.read("two"));
  CHECK(folder.read("one").size() > 10'000);
}

TEST_CASE("safetensors: a file written by hand, and the bytes of one written here") {
  const std::string bytes = small_file();
  const SafetensorsReader reader =
      SafetensorsReader::from_memory(std::as_bytes(Span<const char>(bytes)), "small");
  REQUIRE(reader.header().tensors.size() == 3);
  CHECK(reader.metadata() == SafeMetadata{{"k", "v"}});
  CHECK(reader.find("b")->shape.empty());
  CHECK(reader.find("b")->numel() == 1);
  CHECK(static_cast<char>(read_all(reader, *reader.find("b"))[1]) == 'z');
  CHECK(reader.find("c")->numel() == 0);

  const TemporaryFolder folder;
  SafetensorsWriter writer(
      folder.file("w"),
      {{"b", SafeDType::u8, {3}}, {"a", SafeDType::u8, {1}}, {"z", SafeDType::f32, {1}}},
      {{"k", "v"}});
  writer.write("b", std::as_bytes(Span<const char>("BCD", 3)));
  writer.write("z", std::as_bytes(Span<const char>("0123", 4)));
  writer.write("a", std::as_bytes(Span<const char>("A", 1)));
  writer.finish();
  CHECK(folder.read("w") ==
        safetensors_bytes("{\"__metadata__\":{\"k\":\"v\"}," + entry("z", "F32", "[1]", "[0,4]") +
                              "," + entry("a", "U8", "[1]", "[4,5]") + "," +
                              entry("b", "U8", "[3]", "[5,8]") + "}",
                          "0123ABCD"));
}

TEST_CASE("safetensors: no tensors at all") {
  const TemporaryFolder folder;
  SafetensorsWriter(folder.file("empty"), {}).finish();
  CHECK(folder.read("empty") == length_bytes(8) + "{}      ");
  CHECK(SafetensorsReader::open(folder.file("empty")).header().tensors.empty());
}

TEST_CASE("safetensors: keys in any order, numbers in their largest form, spaces inside") {
  const std::string bytes = safetensors_bytes(
      "{ \"x\" : { \"data_offsets\" : [ 0 , 0 ] ,\n\"shape\":[9007199254740992,0], "
      "\"dtype\":\"F64\" } }",
      "");
  const SafetensorsReader reader =
      SafetensorsReader::from_memory(std::as_bytes(Span<const char>(bytes)), "spaced");
  CHECK(reader.find("x")->shape == std::vector<std::int64_t>{9007199254740992, 0});
}

TEST_CASE("safetensors: ranges outside a tensor are rejected") {
  const std::string bytes = small_file();
  const SafetensorsReader reader =
      SafetensorsReader::from_memory(std::as_bytes(Span<const char>(bytes)), "small");
  std::vector<std::byte> target(3);
  CHECK_THROWS_AS(reader.read(*reader.find("b"), 0, target), Error);
  CHECK_THROWS_AS(reader.read(*reader.find("b"), -1, Span<std::byte>(target).first(1)), Error);
  CHECK_THROWS_AS(reader.read(*reader.find("b"), 3, Span<std::byte>(target).first(0)), Error);
  CHECK_NOTHROW(reader.read(*reader.find("b"), 2, Span<std::byte>(target).first(0)));
  CHECK_NOTHROW(reader.read(*reader.find("a"), 21, target));
  CHECK_THROWS_AS(reader.read(*reader.find("a"), 22, target), Error);
}

}  // namespace safetensors_test
