// TOML: values with their lines, and objects as texts.

#include "verification/config/toml.hpp"

#include <doctest.h>

#include <string>
#include <vector>

namespace {

using namespace zeroproof;

TEST_CASE("values are read as what they are, and know their lines") {
  const TomlFile file("whole = 0xFF\nreal = 1.0\n[part]\nlist = [1, 'two']\nyes = true\nday = 1979-05-27\n",
                      "f");
  const TomlNode root = file.root();
  const TomlNode whole = root.member("whole").value();
  CHECK(whole.integer() == 255);
  CHECK_FALSE(whole.real().has_value());
  CHECK_FALSE(whole.text().has_value());
  CHECK(whole.shown() == "0xFF");
  CHECK(root.member("real")->real() == 1.0);
  CHECK_FALSE(root.member("real")->integer().has_value());
  const TomlNode part = root.member("part").value();
  CHECK(part.is_table());
  CHECK(part.line() == 3);
  CHECK(part.members().size() == 3);
  CHECK(part.members().front().name == "day");
  CHECK(part.members().front().node.line() == 6);
  CHECK(part.members().front().node.shown() == "1979-05-27");
  CHECK(part.member("yes")->boolean() == true);
  const TomlNode list = part.member("list").value();
  CHECK(list.is_list());
  CHECK(list.items().at(1).text() == "two");
  CHECK(list.members().empty());
  CHECK(part.items().empty());
  CHECK_FALSE(root.member("none").has_value());
  CHECK_FALSE(list.member("none").has_value());
}

TEST_CASE("what is no TOML has a line and a reason") {
  try {
    const TomlFile file("a = 1\nb = [", "f");
    FAIL("that was no TOML");
  } catch (const TomlError& error) {
    CHECK(error.line == 2);
    CHECK(std::string(error.what()).find("array") != std::string::npos);
  }
}

TEST_CASE("an object as TOML: members by name, none that is null") {
  const Json object = {
      {"z", 1}, {"part", {{"list", {"a", "b"}}, {"x", 0.5}}}, {"none", nullptr}, {"b", true}};
  CHECK(toml_text(object) == "b = true\nz = 1\n\n[part]\nlist = [ 'a', 'b' ]\nx = 0.5\n");
}

}  // namespace
