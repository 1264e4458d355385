// YAML as a tree: lines, kinds, copies of aliases, and the limits of a text.

#include <doctest.h>

#include <chrono>
#include <string>

#include "tests/verification/tools/quantize/refused.hpp"
#include "verification/tools/quantize/yaml_value.hpp"

namespace yaml_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

YamlNode parsed(const std::string& text) { return parse_yaml(text, "f.yaml"); }

void expect_no_yaml(const std::string& text, std::int64_t line, const std::string& mentions) {
  expect_refused([&] { parsed(text); }, line, mentions);
}

}  // namespace

TEST_CASE("values have kinds and lines, members stay in their order") {
  const YamlNode root =
      parsed("b: 1\na: 'x'\n\nlist:\n- ~\n- {deep: \"1\"}\nempty:\ntext: |\n  1\n  2\n");
  REQUIRE(root.kind == YamlNode::Kind::map);
  REQUIRE(root.members.size() == 5);
  CHECK(root.members[0].key == "b");
  CHECK(root.members[1].key == "a");
  CHECK(root.members[2].line == 4);
  CHECK_FALSE(root.member("b")->quoted);
  CHECK(root.member("a")->quoted);
  CHECK(root.member("a")->text == "x");
  const YamlNode& list = *root.member("list");
  CHECK(list.kind == YamlNode::Kind::list);
  CHECK(list.items.at(0).kind == YamlNode::Kind::nothing);
  CHECK(list.items.at(1).line == 6);
  CHECK(list.items.at(1).member("deep")->quoted);
  CHECK(root.member("empty")->kind == YamlNode::Kind::nothing);
  CHECK(root.member("text")->text == "1\n2\n");
  CHECK(root.member("none") == nullptr);
}

TEST_CASE("a mark of UTF-8, line ends of another system and comments have no effect") {
  for (const std::string text :
       {"a: 1\nb: 2\n",
        "\xEF\xBB\xBF"
        "a: 1\nb: 2\n",
        "a: 1\r\nb: 2\r\n", "# \xC3\xA9\na: 1 # one\nb: 2", "---\na: 1\nb: 2\n...\n"}) {
    CAPTURE(text);
    const YamlNode root = parsed(text);
    CHECK(root.members.size() == 2);
    CHECK(root.member("b")->text == "2");
  }
}

TEST_CASE("an alias is a copy") {
  const YamlNode root = parsed("a: &x {one: 1}\nb: *x\nc: [*x, *x]\n");
  CHECK(root.member("b")->member("one")->text == "1");
  CHECK(root.member("c")->items.at(1).member("one")->text == "1");
  CHECK(root.member("b")->member("one") != root.member("a")->member("one"));
}

TEST_CASE("a key that occurs twice is reported with both lines, wherever it is") {
  expect_no_yaml("a: 1\n\na: 2\n", 3, "the key 'a' occurs twice, first in line 1");
  expect_no_yaml("x:\n  - {k: 1,\n     k: 1}\n", 3, "the key 'k' occurs twice, first in line 2");
  expect_no_yaml("a: 1\n\"a\": 2\n", 2, "occurs twice");
}

TEST_CASE("deep, wide, long and multiplied texts are refused in a moment") {
  const auto begin = std::chrono::steady_clock::now();
  const std::string many(200000, '[');
  expect_no_yaml(many, 1, "nested more than 16 deep");
  expect_no_yaml("a: " + std::string(200000, '{'), 1, "nested more than 16 deep");
  std::string blocks;
  for (int i = 0; i < 20000; ++i) blocks += "- ";
  expect_no_yaml(blocks + "a", 1, "nested more than 16 deep");
  std::string steps;
  for (int i = 0; i < 700; ++i) steps += std::string(i, ' ') + "a:\n";
  expect_no_yaml(steps, 17, "nested more than 16 deep");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [" + before;
    for (int k = 0; k < 8; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  expect_no_yaml(bomb, 4, "more than 20000 values");
  std::string wide = "a: [";
  for (int i = 0; i < 21000; ++i) wide += "1,";
  expect_no_yaml(wide + "]", 1, "more than 20000 values");
  expect_no_yaml("a: &x [1, *x]", 1, "inside of the node it names");
  expect_refused([] { parsed(std::string(most_yaml_bytes + 1, '#')); }, 0,
                 "more than 1048576 bytes");
  CHECK(parsed("# " + std::string(most_yaml_bytes - 2, 'x')).kind == YamlNode::Kind::nothing);
  expect_no_yaml("a: \"" + std::string(900000, 'x'), 1, "this is no YAML");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < 20);  // also on a busy machine
}

TEST_CASE("values have the same type in every version of YAML") {
  const std::string file = "f.yaml";
  const YamlNode root = parsed(
      "yes: true\nint: -12\nreal: 1.5e-3\nword: e4m3\nquoted: \"true\"\nno: no\nhex: 0x10\noctal: "
      "012\nexp: "
      "1e-4\n"
      "dotless: 1.0e4\nbig: 99999999999999999999\nnan: .nan\ninf: .inf\nempty:\nblank: \"\"\nday: "
      "2026-11-25\n"
      "sexagesimal: 1:30\nup: TRUE\n");
  const auto value = [&](const char* key) { return YamlValue{*root.member(key), key, file}; };
  CHECK(value("yes").boolean());
  CHECK(value("up").boolean());
  CHECK(value("int").integer(-20, 20) == -12);
  CHECK(value("int").number(-20, 20) == -12);
  CHECK(value("real").number(0, 1) == 1.5e-3);
  CHECK(value("word").text() == "e4m3");
  CHECK(value("quoted").text() == "true");
  const auto refused = [&](const char* key, const auto& read, const char* mentions) {
    CAPTURE(key);
    expect_refused([&] { read(value(key)); }, root.member(key)->line, mentions);
  };
  const auto boolean = [](const YamlValue& v) { v.boolean(); };
  const auto integer = [](const YamlValue& v) { v.integer(-5, 1 << 30); };
  const auto number = [](const YamlValue& v) { v.number(-1e30, 1e30); };
  const auto text = [](const YamlValue& v) { v.text(); };
  for (const char* key : {"quoted", "no", "int", "empty"}) refused(key, boolean, "true or false");
  for (const char* key : {"int", "hex", "octal", "real", "big", "empty", "yes", "exp"})
    refused(key, integer, "an integer from -5 to");
  for (const char* key : {"hex", "word", "empty", "yes", "quoted"})
    refused(key, number, "a number from");
  for (const char* key : {"exp", "dotless", "octal"})
    refused(key, number, "some readers of YAML take that");
  for (const char* key : {"no", "int", "hex", "nan", "inf", "day", "sexagesimal", "exp"})
    refused(key, text, "in quotation marks");
  for (const char* key : {"empty", "blank"}) refused(key, text, "write one");
}

}  // namespace yaml_test
