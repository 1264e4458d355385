// Every bit of a small file flipped, and the file truncated at every length: rejected, or read
// consistently. Never a crash.

#include <doctest.h>

#include "tests/common/io/safetensors_build.hpp"
#include "tests/fuzz/safetensors_check.hpp"

namespace safetensors_mutation_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

bool accepted(const std::string& bytes) {
  return safetensors_accepts(std::as_bytes(Span<const char>(bytes)));
}

}  // namespace

TEST_CASE("safetensors: every bit flipped") {
  const std::string good = small_file();
  REQUIRE(accepted(good));
  const std::size_t data = good.size() - 26;
  int refused = 0;
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(byte);
      CAPTURE(bit);
      std::string mutant = good;
      mutant[byte] = static_cast<char>(mutant[byte] ^ 1 << bit);
      bool taken = false;
      CHECK_NOTHROW(taken = accepted(mutant));
      if (byte < 8) CHECK_FALSE(taken);  // any other length is wrong for this file
      if (byte >= data) CHECK(taken);    // any data are data
      refused += taken ? 0 : 1;
    }
  }
  MESSAGE(refused << " of " << 8 * good.size() << " flips refused");
  CHECK(refused > static_cast<int>(4 * data));  // most bits of a header matter
}

TEST_CASE("safetensors: truncated at every length, and any byte inserted anywhere") {
  const std::string good = small_file();
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    bool taken = true;
    CHECK_NOTHROW(taken = accepted(good.substr(0, length)));
    CHECK_FALSE(taken);
  }
  for (std::size_t at = 0; at <= good.size(); ++at) {
    for (const char c : {'\0', '"', '}', '0', '\xFF'}) {
      std::string mutant = good;
      mutant.insert(at, 1, c);
      bool taken = true;
      CHECK_NOTHROW(taken = accepted(mutant));
      CHECK_FALSE(taken);  // the file is one byte longer than in its header, for any byte
    }
  }
}

TEST_CASE("safetensors: two bytes of the header replaced") {
  const std::string good = small_file();
  const std::string alphabet = "{}[]\":,0129-.eE\\u \x7F\xC3";
  int tried = 0;
  for (std::size_t at = 8; at + 1 < good.size() - 26; ++at) {
    for (const char a : alphabet) {
      for (const char b : alphabet) {
        std::string mutant = good;
        mutant[at] = a;
        mutant[at + 1] = b;
        accepted(mutant);  // throws on an inconsistency
        ++tried;
      }
    }
  }
  CHECK(tried > 10'000);
}

}  // namespace safetensors_mutation_test
