#include "common/base/digest.hpp"

#include <doctest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace digest_test {

using namespace zeroproof;

namespace {

template <class Bits>
Digest digest_of(const std::vector<Bits>& values, DType dtype) {
  std::vector<Bits> copy = values;
  Hasher hasher;
  hasher.add(TensorView{copy.data(), dtype, static_cast<std::int64_t>(copy.size())});
  return hasher.digest();
}

template <class Bits>
Digest raw_digest_of(const std::vector<Bits>& values) {
  return raw_digest(values.data(), static_cast<std::int64_t>(values.size() * sizeof(Bits)));
}

template <class... Parts>
Digest digest_of_parts(const Parts&... parts) {
  Hasher hasher;
  (hasher.add(parts), ...);
  return hasher.digest();
}

/// Random bits of a format, about one NaN in `nan_every`; `canonical` gets the same values with NaNs
/// as in R9.
template <class Bits>
struct Values {
  std::vector<Bits> values;
  std::vector<Bits> canonical;
  std::int64_t nans = 0;

  Values(std::size_t count, Bits infinity, unsigned nan_every, std::mt19937_64& random) {
    constexpr Bits magnitude = std::numeric_limits<Bits>::max() / 2;
    for (std::size_t i = 0; i < count; ++i) {
      auto bits = static_cast<Bits>(random());
      if (random() % nan_every == 0) bits = static_cast<Bits>(bits | infinity | 1U);
      const bool is_nan = (bits & magnitude) > infinity;
      nans += is_nan ? 1 : 0;
      values.push_back(bits);
      canonical.push_back(is_nan ? magnitude : bits);
    }
  }
};

template <class Bits>
void check_format(DType dtype, Bits infinity) {
  constexpr Bits sign = std::numeric_limits<Bits>::max() / 2 + 1;
  constexpr Bits canonical = std::numeric_limits<Bits>::max() / 2;
  CAPTURE(name(dtype));
  const auto one = [&](Bits bits) { return digest_of<Bits>({bits}, dtype); };
  const Digest nan = raw_digest_of<Bits>({canonical});
  for (const Bits payload : {Bits{1}, Bits{2}, static_cast<Bits>(infinity >> 3 | 1U),
                             static_cast<Bits>(canonical - infinity)}) {
    const auto bits =
        static_cast<Bits>(infinity | (payload & static_cast<Bits>(canonical - infinity)));
    if (bits == infinity) continue;
    CHECK(one(bits) == nan);
    CHECK(one(static_cast<Bits>(bits | sign)) == nan);
  }
  // Everything that is not a NaN keeps its bits: zeros, subnormals, the largest finite value, infinities.
  for (const Bits bits : {Bits{0}, Bits{1}, static_cast<Bits>(infinity - 1), infinity}) {
    CHECK(one(bits) == raw_digest_of<Bits>({bits}));
    CHECK(one(static_cast<Bits>(bits | sign)) ==
          raw_digest_of<Bits>({static_cast<Bits>(bits | sign)}));
    CHECK(one(bits) != one(static_cast<Bits>(bits | sign)));
    CHECK(one(bits) != nan);
  }
  std::mt19937_64 random(static_cast<unsigned>(dtype));
  for (const std::size_t count :
       {1, 2, 3, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 9000}) {
    for (const unsigned nan_every : {1U, 2U, 100U}) {
      const Values<Bits> v(count, infinity, nan_every, random);
      CHECK(digest_of(v.values, dtype) == raw_digest_of(v.canonical));
    }
  }
}

}  // namespace

// From the C interface of the xxHash library (XXH3_128bits); the first is the published digest of no bytes.
TEST_CASE("digest: raw_digest is XXH3-128 of the bytes") {
  std::vector<unsigned char> data(5000);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<unsigned char>(i * 7 + i / 256 + 1);
  const std::pair<std::int64_t, const char*> known[] = {
      {0, "99aa06d3014798d86001c324468d497f"},    {1, "51025a4491835505e12ef9d2eb86ceeb"},
      {3, "f727126d6288a4bd5c83885a0fb5d516"},    {8, "dd669d5507e0e9404506373ef0af21f8"},
      {16, "6c53b945f90d679849bf196d35649b79"},   {17, "f889d91b7faf208294ad051aea796d7e"},
      {128, "776e5a2cae08df3bd480e3bdeadbf37f"},  {129, "b550da2f042256556a4dda91524c13ef"},
      {240, "3f558c88fda1da664f23bfd3609734e8"},  {241, "9ea4272027cb71fcbff7215089202d8f"},
      {1024, "2aac776197fd5fd0ef152210ad8b0d8c"}, {5000, "f672b7e3853690ff8616ac67bcd944bd"}};
  for (const auto& [count, hex] : known) CHECK(to_hex(raw_digest(data.data(), count)) == hex);
  CHECK(to_hex(raw_digest(nullptr, 0)) == known[0].second);
  CHECK(to_hex(Hasher().digest()) == known[0].second);
}

TEST_CASE("digest: to_hex writes 32 digits, the high half first") {
  CHECK(to_hex({0, 0}) == "00000000000000000000000000000000");
  CHECK(to_hex({0x0123456789abcdef, 0xfedcba9876543210}) == "0123456789abcdeffedcba9876543210");
  CHECK(to_hex({1, 0xa}) == "0000000000000001000000000000000a");
  CHECK((Digest{1, 2} < Digest{2, 1}));
  CHECK((Digest{1, 2} != Digest{1, 3}));
  CHECK((Digest{1, 2} == Digest{1, 2}));
}

TEST_CASE("digest: integer views are hashed unchanged") {
  std::mt19937_64 random(1);
  std::vector<std::uint32_t> words(5001);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  words[7] = 0xFFC00001;  // a NaN if it were a float
  CHECK(digest_of(words, DType::u32) == raw_digest_of(words));
  CHECK(digest_of(words, DType::u32) != digest_of(words, DType::fp32));
  std::vector<std::uint64_t> long_words(3001);
  for (std::uint64_t& word : long_words) word = random();
  long_words[0] = 0xFFF0000000000001;
  CHECK(digest_of(long_words, DType::u64) == raw_digest_of(long_words));
  CHECK(digest_of(long_words, DType::u64) != digest_of(long_words, DType::fp64));
}

TEST_CASE("digest: one NaN per float format, everything else by its bits") {
  check_format<std::uint32_t>(DType::fp32, 0x7F800000);
  check_format<std::uint16_t>(DType::bf16, 0x7F80);
  check_format<std::uint16_t>(DType::fp16, 0x7C00);
  check_format<std::uint64_t>(DType::fp64, 0x7FF0000000000000);
  // The same bits: a NaN of fp16, but a large number of bf16.
  CHECK(digest_of<std::uint16_t>({0x7C01}, DType::bf16) !=
        digest_of<std::uint16_t>({0x7C02}, DType::bf16));
  CHECK(digest_of<std::uint16_t>({0x7C01}, DType::fp16) ==
        digest_of<std::uint16_t>({0x7C02}, DType::fp16));
}

TEST_CASE("digest: the 8-bit formats have one NaN too, and e5m2 keeps its infinities") {
  std::uint8_t all[256];
  std::uint8_t canonical_e4m3[256];
  std::uint8_t canonical_e5m2[256];
  for (int i = 0; i < 256; ++i) {
    all[i] = static_cast<std::uint8_t>(i);
    canonical_e4m3[i] = (i & 0x7F) == 0x7F ? 0x7F : all[i];
    canonical_e5m2[i] = (i & 0x7F) > 0x7C ? 0x7F : all[i];
  }
  CHECK(digest_of_parts(TensorView{all, DType::e4m3, 256}) == raw_digest(canonical_e4m3, 256));
  CHECK(digest_of_parts(TensorView{all, DType::e5m2, 256}) == raw_digest(canonical_e5m2, 256));
}

TEST_CASE("digest: adding in parts equals adding at once, and digest() allows further values") {
  std::mt19937_64 random(2);
  Values<std::uint32_t> v(10000, 0x7F800000, 50, random);
  const Digest whole = digest_of(v.values, DType::fp32);
  for (int attempt = 0; attempt < 50; ++attempt) {
    Hasher hasher;
    for (std::int64_t begin = 0; begin < 10000;) {
      const auto step =
          std::min<std::int64_t>(10000 - begin, static_cast<std::int64_t>(random() % 3000));
      hasher.add(
          TensorView{v.values.data() + begin, DType::fp32, step});  // a step of 0 adds nothing
      if (attempt % 2 == 0) hasher.digest();
      begin += step;
    }
    CHECK(hasher.digest() == whole);
    CHECK(hasher.digest() == whole);
  }
  for (const DType dtype : {DType::fp32, DType::fp64, DType::u32, DType::u64}) {
    CHECK(digest_of_parts(TensorView{nullptr, dtype, 0}) == Hasher().digest());
  }
}

TEST_CASE("digest: hashing does not change the values") {
  std::vector<std::uint32_t> values = {0xFFFFFFFF, 0x7F800001, 0x80000000, 1};
  const std::vector<std::uint32_t> before = values;
  Hasher hasher;
  hasher.add(TensorView{values.data(), DType::fp32, 4});
  CHECK(values == before);
}

TEST_CASE("digest: single values and strings") {
  const std::uint64_t number = 0x0102030405060708;
  const unsigned char little_endian[] = {8, 7, 6, 5, 4, 3, 2, 1};
  CHECK(digest_of_parts(number) == raw_digest(little_endian, 8));
  CHECK(digest_of_parts(std::bit_cast<double>(number)) == raw_digest(little_endian, 8));
  CHECK(digest_of_parts(0.0) != digest_of_parts(-0.0));
  const Digest nan = digest_of_parts(std::uint64_t{0x7FFFFFFFFFFFFFFF});
  CHECK(digest_of_parts(std::bit_cast<double>(std::uint64_t{0xFFF8000000000000})) == nan);
  CHECK(digest_of_parts(std::bit_cast<double>(std::uint64_t{0x7FF0000000000001})) == nan);
  CHECK(digest_of_parts(std::uint64_t{0xFFF8000000000000}) != nan);  // an integer has no NaN

  const std::string_view text("zero\0proof", 10);
  std::string as_bytes(8, '\0');
  as_bytes[0] = 10;
  as_bytes += text;
  CHECK(digest_of_parts(text) == raw_digest(as_bytes.data(), 18));
  CHECK(digest_of_parts(std::string_view("ab"), std::string_view("c")) !=
        digest_of_parts(std::string_view("a"), std::string_view("bc")));
  CHECK(digest_of_parts(std::string_view()) == digest_of_parts(std::uint64_t{0}));
}

TEST_CASE("digest: the order matters, and a move keeps the added values") {
  CHECK(digest_of_parts(std::uint64_t{1}, std::uint64_t{2}) !=
        digest_of_parts(std::uint64_t{2}, std::uint64_t{1}));
  Hasher first;
  first.add(std::uint64_t{1});
  Hasher second(std::move(first));
  second.add(std::uint64_t{2});
  Hasher third;
  third.add(std::string_view("forgotten"));
  third = std::move(second);
  CHECK(third.digest() == digest_of_parts(std::uint64_t{1}, std::uint64_t{2}));
}

}  // namespace digest_test
