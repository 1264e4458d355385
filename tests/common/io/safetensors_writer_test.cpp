// The writer rejects files that the reader would reject, and leaves either a complete file or none.

#include <doctest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "tests/common/io/safetensors_build.hpp"
#include "tests/support/temporary_folder.hpp"

namespace safetensors_writer_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

Span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(Span<const char>(text));
}

/// Runs `act` and returns its error.
template <class Act>
std::string refusal(const Act& act, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return {};
}

std::string plan(const SafeTensorSpec& spec, const SafetensorsLimits& limits = {}) {
  return refusal([&] { plan_safetensors({spec}, {}, limits); });
}

bool contains(const std::string& text, const std::string& phrase) {
  return text.find(phrase) != std::string::npos;
}

}  // namespace

TEST_CASE("safetensors writer: names and shapes a reader would reject") {
  using enum SafeDType;
  CHECK(contains(plan({"", u8, {1}}), "is empty"));
  CHECK(contains(plan({"__metadata__", u8, {1}}), "is reserved"));
  CHECK(contains(plan({"a\nb", u8, {1}}), "control"));
  CHECK(contains(plan({std::string("a\0b", 3), u8, {1}}), "control"));
  CHECK(contains(plan({"\xC2\x80", u8, {1}}), "control"));
  for (const char* broken :
       {"\xC3", "\xC3(", "\xC0\x80", "\xED\xA0\x80", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xE2\x82", "\xF0\x9F\x98"}) {
    CAPTURE(broken);
    CHECK(contains(plan({broken, u8, {1}}), "the tensor name"));
    CHECK(safetensors_name_problem(broken) == "is not UTF-8");
  }
  for (const char* fine : {"\xC2\xA0", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a b/c\\d\"e"}) {
    CAPTURE(fine);
    CHECK(plan({fine, u8, {1}}).empty());
  }
  CHECK(contains(plan({std::string(1025, 'x'), u8, {1}}), "1025 bytes"));
  CHECK(plan({std::string(1024, 'x'), u8, {1}}).empty());
  CHECK(contains(plan({"a", u8, {-1}}), "shape that exceeds the limits"));
  CHECK(contains(plan({"a", u8, {-1, -1}}), "shape that exceeds the limits"));
  CHECK(contains(plan({"a", f64, {std::int64_t{1} << 51}}), "shape that exceeds the limits"));
  CHECK(plan({"a", f64, {std::int64_t{1} << 50}}).empty());
  CHECK(
      contains(plan({"a", u8, std::vector<std::int64_t>(65, 1)}), "shape that exceeds the limits"));
  CHECK(contains(refusal([&] {
                   plan_safetensors({{"a", u8, {1}}, {"b", u8, {}}, {"a", f32, {1}}}, {});
                 }),
                 "'a' is used twice"));
  SafetensorsLimits short_texts;
  short_texts.text_bytes = 5;
  CHECK(contains(refusal([&] {
                   plan_safetensors({}, {{"k", "123456"}}, short_texts);
                 }),
                 "a text of 6 bytes"));
  CHECK(refusal([&] { plan_safetensors({}, {{"k", "12345"}}, short_texts); }).empty());
  SafetensorsLimits few;
  few.tensors = 1;
  CHECK(contains(refusal([&] {
                   plan_safetensors({{"a", u8, {}}, {"b", u8, {}}}, {}, few);
                 }),
                 "2 tensors"));
  few.metadata_entries = 1;
  CHECK(contains(refusal([&] { plan_safetensors({}, {{"a", ""}, {"b", ""}}, few); }), "2 entries"));
  CHECK(contains(refusal([&] {
                   safetensors_header_text(plan_safetensors({}, {{"k", "\xFF"}}));
                 }),
                 "not UTF-8"));
}

TEST_CASE("safetensors writer: a header larger than readers accept") {
  const TemporaryFolder folder;
  SafetensorsLimits limits;
  limits.header_bytes = 63;
  CHECK(contains(
      refusal([&] {
        SafetensorsWriter(folder.file("f"), {{"a long name", SafeDType::u8, {1}}}, {}, limits);
      }),
      "header of 64 bytes"));
  CHECK(folder.num_entries() == 0);
}

TEST_CASE("safetensors writer: too many bytes, too few, unknown names, late bytes") {
  const TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder.file("f"),
                             {{"a", SafeDType::u8, {3}}, {"b", SafeDType::u8, {0}}});
    CHECK(contains(refusal([&] { writer.write("c", bytes_of("x")); }), "'c' is not planned"));
    CHECK(contains(refusal([&] { writer.write("b", bytes_of("x")); }), "gets 1 bytes but has 0"));
    writer.write("a", bytes_of("12"));
    CHECK(contains(refusal([&] { writer.write("a", bytes_of("34")); }), "gets 4 bytes but has 3"));
    CHECK(contains(refusal([&] { writer.finish(); }), "got 2 of 3 bytes"));
    CHECK(folder.num_entries() <= 1);  // a temporary, if one needs a name
    CHECK_FALSE(std::filesystem::exists(folder.file("f")));
  }
  CHECK(folder.num_entries() == 0);
  SafetensorsWriter writer(folder.file("f"), {{"a", SafeDType::u8, {3}}});
  writer.write("a", bytes_of("123"));
  writer.finish();
  CHECK(contains(refusal([&] { writer.write("a", bytes_of("")); }), "too late"));
  CHECK(contains(refusal([&] { writer.finish(); }), "twice"));
  CHECK(folder.num_entries() == 1);
}

TEST_CASE("safetensors writer: an existing file stays until the new one is complete") {
  const TemporaryFolder folder;
  folder.write("f", "old");
  {
    SafetensorsWriter writer(folder.file("f"), {{"a", SafeDType::u8, {1}}});
    writer.write("a", bytes_of("x"));
    CHECK(folder.read("f") == "old");
  }
  CHECK(folder.read("f") == "old");
  SafetensorsWriter writer(folder.file("f"), {});
  writer.finish();
  CHECK(folder.read("f") != "old");
  CHECK(folder.num_entries() == 1);
}

TEST_CASE("safetensors writer: folders, pipes, devices and links") {
  const TemporaryFolder folder;
  const auto make = [&](const std::string& path) {
    return refusal([&] { SafetensorsWriter(path, {}).finish(); }, ErrorCode::io);
  };
  CHECK(contains(make(folder.file("")), "is a directory"));
  CHECK(contains(make(folder.file("no/such/folder")), "cannot be written"));
  CHECK(contains(make(""), "empty"));
  // Never a real device here: if the check failed, a test run by root would replace it.
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK(contains(make(folder.file("pipe")), "is not a regular file"));
  std::filesystem::create_symlink("target", folder.file("link"));
  CHECK(make(folder.file("link")).empty());
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(std::filesystem::is_regular_file(folder.file("target")));
  std::filesystem::create_symlink("loop", folder.file("loop"));
  CHECK(contains(make(folder.file("loop")), "is a link without a target"));
}

TEST_CASE("safetensors writer: a full disk") {
  const TemporaryFolder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  std::string message;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  message = refusal(
      [&] {
        SafetensorsWriter writer(folder.file("f"), {{"a", SafeDType::u8, {10000}}});
        writer.write("a", std::vector<std::byte>(10000));
        writer.finish();
      },
      ErrorCode::io);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(message, "cannot be written at byte"));
  CHECK(folder.num_entries() == 0);
}

}  // namespace safetensors_writer_test
