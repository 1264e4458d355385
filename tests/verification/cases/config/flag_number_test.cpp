#include "verification/cases/config/flag_number.hpp"

#include <doctest.h>

#include <cstdint>

using namespace zeroproof;
using namespace zeroproof::verification;

namespace {

template <class Number>
std::string refused(const std::string& text, Number low = std::numeric_limits<Number>::lowest(),
                    Number high = std::numeric_limits<Number>::max(), const char* or_else = "") {
  try {
    flag_number<Number>(text, "--x", low, high, or_else);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    return error.what();
  }
  return "taken";
}

std::string because(const std::string& text, const std::string& remedy) {
  return "--x is '" + text + "' (the value must be a number in range); " + remedy;
}

}  // namespace

TEST_CASE("flag numbers: every digit is read, from the lowest to the highest value") {
  CHECK(flag_number<int>("7", "--x") == 7);
  CHECK(flag_number<int>("-7", "--x") == -7);
  CHECK(flag_number<std::int64_t>("9223372036854775807", "--x") == 9223372036854775807);
  CHECK(flag_number<double>("0.25", "--x") == 0.25);
  CHECK(flag_number<int>("0", "--x", 0, 3) == 0);
  CHECK(flag_number<int>("3", "--x", 0, 3) == 3);
  for (const char* text : {"", " 7", "7 ", "7x", "x7", "+7", "0x7", "2147483648", "1e3"}) {
    CAPTURE(text);
    CHECK(refused<int>(text) == because(text, "write digits, as in --x 2"));
  }
}

TEST_CASE("flag numbers: errors name the accepted values") {
  for (const char* text : {"nan", "inf", "-inf", "half", "1e999"}) {
    CAPTURE(text);
    CHECK(refused<double>(text) == because(text, "write a number, as in --x 0.5"));
  }
  CHECK(refused<double>("nan", 0, 1) == because("nan", "use 0 to 1"));
  CHECK(refused<double>("1.5", 0, 1) == because("1.5", "use 0 to 1"));
  CHECK(refused<int>("-1", 0, 3, ", or all") == because("-1", "use 0 to 3, or all"));
  CHECK(refused<int>("4", 0, 3) == because("4", "use 0 to 3"));
  CHECK(refused<std::int64_t>("0", 1) == because("0", "use 1 or more"));
  CHECK(refused<std::uint64_t>("-4") == because("-4", "write digits, as in --x 2"));
}
