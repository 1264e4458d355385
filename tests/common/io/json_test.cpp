// JSON values of reports, bundles and MPI job reports.

#include "common/io/json.hpp"

#include <doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace json_test {

namespace {

using namespace zeroproof;

TEST_CASE("Json: members keep their order, and an initializer list is an object if possible") {
  Json json = {{"z", 1}, {"a", {{"deep", nullptr}}}, {"m", {1, "two", false}}};
  json["b"] = std::vector<std::string>{"x", "y"};
  json["a"]["more"] = -1;
  json["z"] = 2U;  // at its old position
  CHECK(json.dump() == R"({"z":2,"a":{"deep":null,"more":-1},"m":[1,"two",false],"b":["x","y"]})");
  CHECK(Json({{"a", 1}, {2, "b"}}).dump() == R"([["a",1],[2,"b"]])");
  CHECK(Json::array().dump(1) + Json::object().dump(1) + Json().dump() == "[]{}null");
  CHECK(Json({{"a", {1}}}).dump(1) == "{\n \"a\": [\n  1\n ]\n}");
}

TEST_CASE("Json: numbers are read back exactly") {
  CHECK(Json(0.1).dump() == "0.1");
  CHECK(Json(1.0).dump() == "1.0");
  CHECK(Json(1.0F / 3).dump() == "0.3333333432674408");
  CHECK(Json(std::nan("")).dump() == "null");
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).dump() == "18446744073709551615");
  CHECK(Json(std::numeric_limits<std::int64_t>::min()).dump() == "-9223372036854775808");
  const Json read = Json::parse("[18446744073709551615, -9223372036854775808, 1e-300, 3, 2.5]");
  CHECK(read.dump() == "[18446744073709551615,-9223372036854775808,1e-300,3,2.5]");
  CHECK(read.begin()[0].get<std::uint64_t>() == std::numeric_limits<std::uint64_t>::max());
  CHECK(read.begin()[3].get<double>() == 3.0);
  CHECK(read.begin()[4].get<int>() == 2);
}

TEST_CASE("Json: a copy is independent of its source") {
  Json first = {{"list", {1}}};
  const Json second = first;
  first["list"].push_back(2);
  CHECK(first.dump() == R"({"list":[1,2]})");
  CHECK(second.dump() == R"({"list":[1]})");
}

TEST_CASE("Json: texts with quotes, control characters, and bytes that are not UTF-8") {
  CHECK(Json("a\"\\\n\x01\xC3\xA4").dump() == "\"a\\\"\\\\\\n\\u0001\xC3\xA4\"");
  CHECK(Json("a\xFFz").dump() == "\"a\xEF\xBF\xBDz\"");
  CHECK(json_quoted("a/\"") == "\"a/\\\"\"");
  CHECK_FALSE(json_quoted("a\xFF").has_value());
}

TEST_CASE("Json: parses every kind of value, lists of numbers") {
  const Json json = Json::parse(R"({"a": "last", "b": [1, 2], "c": true, "d": null})");
  CHECK(json.dump() == R"({"a":"last","b":[1,2],"c":true,"d":null})");
  CHECK(json.at("b").get<std::vector<std::int64_t>>() == std::vector<std::int64_t>{1, 2});
  CHECK(json.value("a", "") == "last");
  CHECK(json.value("e", "absent") == "absent");
  CHECK(json.contains("d"));
  CHECK(json.at("d").is_null());
  CHECK_FALSE(json.contains("e"));
  const bool c = json.at("c");
  CHECK(c);
}

TEST_CASE("Json: invalid, missing, wrong type or too deep is an error") {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\xFF\"",
                           R"({"a": 1, "b": 2, "a": 1})", R"([{"a": {"a": 1, "\u0061": 1}}])"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Json::parse(text), JsonError);
  }
  CHECK_NOTHROW(Json::parse(std::string(100, '[') + std::string(100, ']')));
  CHECK_THROWS_AS(Json::parse(std::string(101, '[') + std::string(101, ']')), JsonError);
  CHECK_THROWS_AS(Json::parse(std::string(1 << 20, '[')), JsonError);
  const Json json = {{"text", "1"}, {"number", 1}, {"list", {1}}};
  CHECK_THROWS_WITH_AS(json.at("none"), "key 'none' not found", JsonError);
  CHECK_THROWS_WITH_AS(json.at("text").get<int>(), "type must be number, but is string", JsonError);
  CHECK_THROWS_WITH_AS(json.at("number").get<std::string>(), "type must be string, but is number",
                       JsonError);
  CHECK_THROWS_AS(json.at("number").get<bool>(), JsonError);
  CHECK_THROWS_AS(json.at("number").get<std::vector<int>>(), JsonError);
  CHECK_THROWS_AS(json.at("list").at("none"), JsonError);
  CHECK_THROWS_AS(Json(1).push_back(2), JsonError);
  CHECK_THROWS_AS(Json({1})["key"], JsonError);
}

// With a search for each among those before it, this would end at the time limit of the test.
TEST_CASE("Json: parses many members in linear time") {
  constexpr int members = 1000000;
  std::string text = "{";
  for (int i = 0; i < members; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  text += "}";
  const Json json = Json::parse(text);
  CHECK(json.dump() == text);
  CHECK(json.members().size() == members);
}

TEST_CASE("Json: errors about invalid text are short for long words") {
  try {
    Json::parse("{\"" + std::string(100000, 'x'));
    FAIL("accepted");
  } catch (const JsonError& error) {
    CHECK(std::string(error.what()).size() <= 300);
  }
}

}  // namespace

}  // namespace json_test
