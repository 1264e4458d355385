// Patterns: the special cases of Python's fnmatchcase, by hand. glob_python_test.py has random
// ones.

#include <doctest.h>

#include "verification/tools/quantize/glob.hpp"

namespace glob_test {

namespace {

using zeroproof::Glob;
using zeroproof::wildcard_bytes;

bool matches(const char* pattern, const char* text) { return Glob(pattern).matches(text); }

std::string wild(const char* pattern) {
  std::string marks;
  for (const bool is_wild : wildcard_bytes(pattern)) marks += is_wild ? 'w' : '.';
  return marks;
}

}  // namespace

TEST_CASE("any text, one character, and the whole text") {
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("*", ""));
  CHECK(matches("**", "a.b"));
  CHECK(matches("*layers.1*", "model.layers.10.mlp"));  // the trap
  CHECK_FALSE(matches("*layers.1.*", "model.layers.10.mlp"));
  CHECK_FALSE(matches("layers.1*", "model.layers.1.mlp"));
  CHECK(matches("a*b*c", "aXbXbc"));
  CHECK_FALSE(matches("a*b*c", "aXbXb"));
  CHECK(matches("a?c", "abc"));
  CHECK_FALSE(matches("a?c", "ac"));
  CHECK(matches("a?c", "a\nc"));
  CHECK_FALSE(matches("MLP", "mlp"));
  CHECK(matches("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
}

TEST_CASE("characters are those of UTF-8") {
  CHECK(matches("a?c",
                "a\xC3\xA9"
                "c"));
  CHECK(matches("[\xC3\xA0-\xC3\xB0]", "\xC3\xA9"));
  CHECK_FALSE(matches("?", "\xC3\xA9\xC3\xA9"));
  CHECK(matches("?", "\xF0\x9F\x98\x80"));
}

TEST_CASE("sets, and sets with empty ranges") {
  CHECK(matches("[abc]", "b"));
  CHECK_FALSE(matches("[!abc]", "b"));
  CHECK(matches("[!abc]", "d"));
  CHECK(matches("[a-c]", "b"));
  CHECK(matches("[a-a]", "a"));
  CHECK(matches("[]]", "]"));
  CHECK(matches("[!]]", "a"));
  CHECK_FALSE(matches("[!]]", "]"));
  CHECK(matches("[", "["));
  CHECK(matches("[a", "[a"));
  CHECK(matches("[]", "[]"));
  CHECK(matches("[!]", "[!]"));
  CHECK(matches("[a-]", "-"));
  CHECK(matches("[-a]", "-"));
  CHECK(matches("[a-c-e]", "-"));
  CHECK_FALSE(matches("[a-c-e]", "d"));
  CHECK(matches("[^a]", "^"));
  CHECK(matches("[^a]", "a"));
  CHECK(matches("[\\]", "\\"));
  CHECK_FALSE(matches("[c-a]", "b"));  // empty: nothing
  CHECK_FALSE(matches("[c-a]", ""));
  CHECK(matches("[!c-a]", "b"));  // empty and negated: anything
  CHECK(matches("[c-ax]", "x"));
  CHECK(matches("[b-a!x]", "y"));  // a ! that is then first negates
  CHECK_FALSE(matches("[b-a!x]", "x"));
  CHECK_FALSE(matches("[b-a!-z]", "-"));  // and the hyphen behind it is a character
  CHECK(matches("[b-a!-z]", "m"));
  CHECK(matches("[--0]", "."));
  CHECK(matches("[&&a]", "&"));
  CHECK(matches("[[a]", "["));
}

TEST_CASE("positions of wildcards in a pattern") {
  CHECK(wild("") == "");
  CHECK(wild("*a1*?") == "w..ww");
  CHECK(wild("a[12]*b") == ".wwwww.");
  CHECK(wild("a[]1]b[") == ".wwww..");
  CHECK(wild("[1") == "..");
}

}  // namespace glob_test
