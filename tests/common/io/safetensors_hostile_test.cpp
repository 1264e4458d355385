// Invalid files: rejected with an error sentence, before they cost memory.

#include "tests/common/io/safetensors_hostile.hpp"

#include <doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "tests/common/io/allocation_meter.hpp"
#include "tests/common/io/safetensors_build.hpp"
#include "tests/support/temporary_folder.hpp"

namespace safetensors_hostile_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The error message, "" if the reader was constructed.
template <class Make>
std::string refusal(const Make& make) {
  try {
    make();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::io);
    return error.what();
  }
  return {};
}

void check_sentence(const std::string& message, const std::string& phrase) {
  CAPTURE(message);
  CHECK(message.find(phrase) != std::string::npos);
  CHECK(message.find(" (") != std::string::npos);
  CHECK(message.find("); ") != std::string::npos);
  CHECK(message.size() < 600);
  CHECK(std::none_of(message.begin(), message.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
}

/// The header as long as the file can hold: the basis of the memory limit.
std::size_t header_size(const std::string& bytes) {
  std::uint64_t length = 0;
  if (bytes.size() >= 8) std::memcpy(&length, bytes.data(), 8);
  return std::min<std::uint64_t>(length, bytes.size());
}

constexpr std::size_t slack = 64 << 10;

/// Rejected from memory and from disk, with the same sentence and within the same memory.
void check_case(const HostileCase& hostile, const TemporaryFolder& folder) {
  CAPTURE(hostile.name);
  const std::string path = folder.write("hostile", hostile.bytes);
  std::string from_memory, from_file;
  AllocationCount count;
  {
    const AllocationMeter meter;
    from_memory = refusal([&] {
      SafetensorsReader::from_memory(std::as_bytes(Span<const char>(hostile.bytes)), path,
                                     hostile.limits);
    });
    from_file = refusal([&] { SafetensorsReader::open(path, hostile.limits); });
    count = meter.count();
  }
  CHECK(from_memory == from_file);
  check_sentence(from_file, hostile.phrase);
  CHECK(from_file.rfind(path, 0) == 0);
  const std::size_t header = header_size(hostile.bytes);
  CHECK(count.largest <= 2 * header + slack);
  CHECK(count.peak <= 10 * header + slack);
  CHECK(count.peak <= std::size_t{512} << 20);
}

}  // namespace

TEST_CASE("safetensors: every hostile file is rejected at low cost") {
  const TemporaryFolder folder;
  std::set<std::string> names;
  for (const HostileCase& hostile : small_hostile_cases()) {
    CHECK(names.insert(hostile.name).second);
    check_case(hostile, folder);
  }
  CHECK(names.size() >= 90);
}

TEST_CASE("safetensors: headers designed to cost memory") {
  const TemporaryFolder folder;
  for (const HostileCase& hostile : hostile_sizes()) check_case(hostile, folder);
}

TEST_CASE("safetensors: files that are not regular are rejected") {
  const TemporaryFolder folder;
  const auto open = [](const std::string& path) {
    return refusal([&] { SafetensorsReader::open(path); });
  };
  check_sentence(open(folder.file("missing")), "cannot be opened: No such file");
  check_sentence(open(folder.file("")), "is a directory");
  check_sentence(open("/dev/null"), "is not a regular file");
  check_sentence(open("/dev/zero"), "is not a regular file");
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  check_sentence(open(folder.file("pipe")),
                 "is not a regular file");  // without waiting for a writer
  REQUIRE(::symlink("loop", folder.file("loop").c_str()) == 0);
  check_sentence(open(folder.file("loop")), "cannot be opened");
  check_sentence(open(folder.write("x", small_file()) + std::string("\0y", 2)), "NUL");
  check_sentence(open(""), "cannot be opened");
  if (::geteuid() != 0) {
    folder.write("secret", small_file());
    ::chmod(folder.file("secret").c_str(), 0);
    check_sentence(open(folder.file("secret")), "Permission denied");
  }
}

TEST_CASE("safetensors: a file that shrinks while it is read is an error, not a signal") {
  const TemporaryFolder folder;
  const std::string path = folder.write("shrinks", small_file());
  const SafetensorsReader reader = SafetensorsReader::open(path);
  std::vector<std::byte> target(24);
  CHECK_NOTHROW(reader.read(*reader.find("a"), 0, target));
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(small_file().size() - 10)) == 0);
  check_sentence(refusal([&] { reader.read(*reader.find("a"), 0, target); }), "shortened it");
  check_sentence(
      refusal([&] { reader.for_each_chunk(*reader.find("b"), [](Span<const std::byte>) {}); }),
      "when it was opened");
}

}  // namespace safetensors_hostile_test
