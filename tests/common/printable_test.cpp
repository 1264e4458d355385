// Untrusted text has no effect on a terminal, and is readable.

#include "common/base/printable.hpp"

#include <doctest.h>

#include <string>

#include "common/base/error.hpp"

namespace printable_test {

using namespace zeroproof;

TEST_CASE("printable: ordinary text is unchanged, in any script") {
  for (const char* text :
       {"", "a b", "weights/ä.toml", "\xE6\xB0\xB4", "\xF0\x9F\x9A\x80", "%s \\ '\""}) {
    CHECK(printable(text) == text);
    CHECK(sentence(text) == text);
  }
}

TEST_CASE("printable: control sequences are escaped") {
  CHECK(printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(printable("a\nb\tc\r\x7f") == "a\\x0ab\\x09c\\x0d\\x7f");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\xc2\\x9b31m");  // one character that begins a sequence
  CHECK(printable("\xE2\x80\xAE"
                  "gpj") == "\\xe2\\x80\\xaegpj");        // writes from right to left
  CHECK(printable("\xE2\x80\xA8") == "\\xe2\\x80\\xa8");  // ends a line
  CHECK(printable("\xC2\xA0") == "\xC2\xA0");
}

TEST_CASE("printable: bytes that are not UTF-8 are escaped") {
  CHECK(printable("\x80") == "\\x80");
  CHECK(printable("\xC3") == "\\xc3");
  CHECK(printable("\xC3(") == "\\xc3(");
  CHECK(printable("\xC0\xAF") == "\\xc0\\xaf");           // overlong
  CHECK(printable("\xE0\x9B\xAF") == "\\xe0\\x9b\\xaf");  // overlong
  CHECK(printable("\xED\xA0\x80") == "\\xed\\xa0\\x80");  // half of a pair
  CHECK(printable("\xF4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("printable: line breaks are kept") {
  CHECK(printable_lines("a\n\tb\x1b") == "a\n\tb\\x1b");
}

TEST_CASE("sentence: long words and long texts are shortened in the middle") {
  CHECK(sentence(std::string(200, 'x')) == std::string(200, 'x'));
  CHECK(sentence("a " + std::string(5000, 'x') + " b") ==
        "a " + std::string(120, 'x') + "...(4840 bytes left out)..." + std::string(40, 'x') + " b");
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "ab ";
  const std::string cut = sentence(words + "the end");
  CHECK(cut.size() < 2000);
  CHECK(cut.find("bytes left out") != std::string::npos);
  CHECK(cut.substr(cut.size() - 7) == "the end");
  std::string wide;
  for (int i = 0; i < 150; ++i) wide += "\xE6\xB0\xB4";
  CHECK(printable(sentence(wide)) == sentence(wide));  // split between characters
}

TEST_CASE("error: fail() makes a printable sentence of any text") {
  CHECK_THROWS_WITH_AS(fail(ErrorCode::io, "'a\nb' is " + std::string(3000, 'x'), "w", "r"),
                       ("'a\\x0ab' is " + std::string(120, 'x') + "...(2840 bytes left out)..." +
                        std::string(40, 'x') + " (w); r")
                           .c_str(),
                       Error);
}

}  // namespace printable_test
