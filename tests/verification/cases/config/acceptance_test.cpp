// The words of --accept and accept=.

#include <doctest.h>

#include <string>

#include "common/base/error.hpp"
#include "verification/cases/config/acceptance.hpp"

namespace acceptance_test {

using namespace zeroproof;

TEST_CASE("acceptance: the words, and how reports name them") {
  const auto read = [](const char* words) {
    return acceptance_of(words, "--accept", AcceptedDialects::yes);
  };
  for (const char* words : {"", "bits"}) {
    CHECK_FALSE(read(words).any_order);
    CHECK(read(words).text().empty());
  }
  CHECK(read("any-order").any_order);
  CHECK_FALSE(read("any-order").fp32_powers);
  CHECK(read("any-order").text() == "any legal order");
  for (const char* words : {"any-order,fp32-powers", "fp32-powers,any-order"}) {
    CHECK(read(words).any_order);
    CHECK(read(words).fp32_powers);
    CHECK(read(words).text() == "any legal order, with powers of beta in fp32");
  }
  CHECK(read("dialect:torch-sgd").dialect == "torch-sgd");
  CHECK(read("dialect:torch-sgd").text() == "the dialect torch-sgd");
}

TEST_CASE("acceptance: other words are refused in one sentence") {
  const auto refused = [](const std::string& words, const std::string& part,
                          AcceptedDialects dialects = AcceptedDialects::yes) {
    CAPTURE(words);
    try {
      acceptance_of(words, "--accept", dialects);
      FAIL_CHECK("was accepted");
    } catch (const Error& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(error.code() == ErrorCode::config);
      CHECK(what.find("--accept is '" + words + "'") == 0);
      CHECK(what.find(part) != std::string::npos);
    }
  };
  for (const char* words : {"fp32-powers", "bits,fp32-powers", "fp32-powers,bits"})
    refused(words, "; use any-order,fp32-powers");
  refused("any_order", "did you mean any-order?");
  refused("any-order,fp32-power", "did you mean any-order,fp32-powers?");
  refused("any-order,any-order", "use bits");
  refused("sideways", "use bits, any-order, any-order,fp32-powers or dialect:NAME");
  refused("sideways", "use bits, any-order or any-order,fp32-powers", AcceptedDialects::no);
  for (const char* words : {"dialect:", "dialect:torch-sgd,fp32-powers"})
    refused(words, "use bits", AcceptedDialects::no);
  refused("dialect:", "use bits");
}

}  // namespace acceptance_test
