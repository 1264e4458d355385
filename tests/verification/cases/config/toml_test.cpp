// TOML: values with their lines, and objects as texts.

#include "verification/cases/config/toml.hpp"

#include <doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace zeroproof;

TEST_CASE("TOML: values have their types and lines") {
  const TomlFile file(
      "whole = 0xFF\nreal = 1.0\n[part]\nlist = [1, 'two']\nyes = true\nday = 1979-05-27\n", "f");
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

TEST_CASE("TOML: errors have a line and a reason") {
  try {
    const TomlFile file("a = 1\nb = [", "f");
    FAIL("that was no TOML");
  } catch (const TomlError& error) {
    CHECK(error.line == 2);
    CHECK(std::string(error.what()).find("array") != std::string::npos);
  }
}

/// The line of the first error in a TOML text; 0 if there is none.
std::int64_t broken_line(const std::string& text) {
  try {
    const TomlFile file(text, "f");
  } catch (const TomlError& error) {
    return error.line;
  }
  return 0;
}

TEST_CASE("TOML: failed assertions of the library become errors with their line") {
  CHECK(broken_line("[#") == 1);
  CHECK(broken_line("a = [}") == 1);
  CHECK(broken_line("a = 1\nb = '''\n[#\n'''\n\n[#]\nc = 1\n") == 6);
  CHECK(broken_line("a = 1\nb = [\n  1,\n  }\n") == 4);
}

TEST_CASE("TOML: characters next to the blanks of Unicode") {
  for (const char* character :
       {"\xEF\xAC\xA6", "\xEF\xBB\xBD", "\xEF\xBB\xBE"}) {  // U+FB26 to U+FEFE
    CAPTURE(character);
    CHECK(broken_line("a = 1 " + std::string(character)) == 1);
    CHECK(broken_line("a = \"" + std::string(character) + "\"") == 0);
    CHECK(broken_line("a = 1\nb" + std::string(character) + " = 1") == 2);
    CHECK(broken_line("a = 1\nb " + std::string(character) + "= 1") == 2);
  }
}

TEST_CASE("TOML: any small change of a text is parsed or refused") {
  const std::string text =
      "[run]\nsteps = 0x1F\nworlds = [ 'self', \"a\\u0041\" ]\n[[param_group]]\nname = '''x'''\n"
      "a.b = {c = 1.5e3, d = [true, 1979-05-27T07:32:00Z]} # \xC3\xA4\n";
  const std::string marks = "[]{}#=,.'\"\\\n 0x-+_:eT\x80\xEF\xFF";
  std::int64_t refused = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    for (const char mark : marks) {
      for (const std::size_t taken : {0, 1, 7}) {
        std::string changed = text;
        changed.replace(at, std::min(taken, text.size() - at), 1, mark);
        refused += broken_line(changed) > 0 ? 1 : 0;
        refused += broken_line(changed.substr(0, at + 1)) > 0 ? 1 : 0;
      }
    }
  }
  CHECK(refused > 5000);
}

TEST_CASE("TOML: writes an object's members by name, without nulls") {
  const Json object = {
      {"z", 1}, {"part", {{"list", {"a", "b"}}, {"x", 0.5}}}, {"none", nullptr}, {"b", true}};
  CHECK(toml_text(object) == "b = true\nz = 1\n\n[part]\nlist = [ 'a', 'b' ]\nx = 0.5\n");
}

}  // namespace
