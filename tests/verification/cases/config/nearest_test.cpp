// Hints correct typing errors, and are omitted otherwise.

#include <doctest.h>

#include "verification/cases/config/nearest.hpp"

using namespace zeroproof;

TEST_CASE("slips: counts omitted, inserted, replaced and swapped letters") {
  CHECK(slips("", "") == 0);
  CHECK(slips("", "abc") == 3);
  CHECK(slips("abc", "") == 3);
  CHECK(slips("verify", "verify") == 0);
  CHECK(slips("verfy", "verify") == 1);
  CHECK(slips("verrify", "verify") == 1);
  CHECK(slips("vorify", "verify") == 1);
  CHECK(slips("vreify", "verify") == 1);
  CHECK(slips("lbgfs", "lbfgs") == 1);
  CHECK(slips("kitten", "sitting") == 3);
  CHECK(slips("ab", "ba") == 1);
  CHECK(slips("abcd", "dcba") == slips("dcba", "abcd"));
}

TEST_CASE("nearest: only near names are suggested") {
  const std::vector<std::string> commands = {"verify", "list", "explain", "plan", "trace"};
  CHECK(nearest("verfy", commands) == "verify");
  CHECK(nearest("explian", commands) == "explain");
  CHECK(nearest("exp", commands) == "explain");  // a prefix
  CHECK(nearest("pl", commands).empty());        // two letters are too short for a prefix
  CHECK(nearest("lsit", commands) == "list");
  for (const char* word : {"", "x", "train", "frobnicate", "zero", "42", "help me"}) {
    CAPTURE(word);
    CHECK(nearest(word, commands).empty());
  }
  const std::vector<std::string> keys = {"steps", "seed", "stages", "text"};
  CHECK(nearest("steps", keys) == "steps");
  CHECK(nearest("seeed", keys) == "seed");
  CHECK(nearest("tezt", keys) == "text");
  CHECK(nearest("stagse", keys) == "stages");
  CHECK(nearest("abc", {"abd", "abcdefgh"}) ==
        "abcdefgh");  // a missing end counts for more than one slip
  CHECK(nearest("verify", {}).empty());
  CHECK(nearest("tarce", {"tract", "trace"}) == "trace");  // the nearer one, in any order
  CHECK(nearest("tarce", {"trace", "tract"}) == "trace");
  CHECK(nearest("step", {"stop", "stem", "stay"}) == "stop");  // the first of equally near ones
}

TEST_CASE("nearest: names of other libraries are translated") {
  const std::vector<std::string> dtypes = {"bf16", "fp16", "fp32", "e4m3", "e5m2"};
  CHECK(nearest("bfloat16", dtypes) == "bf16");
  CHECK(nearest("float16", dtypes) == "fp16");
  CHECK(nearest("half", dtypes) == "fp16");
  CHECK(nearest("float32", dtypes) == "fp32");
  CHECK(nearest("float", dtypes) == "fp32");
  CHECK(nearest("float8_e4m3fn", dtypes) == "e4m3");
  CHECK(nearest("float8_e5m2", dtypes) == "e5m2");
  CHECK(nearest("learning_rate", {"lr", "eps", "min_lr"}) == "lr");
  CHECK(nearest("epsilon", {"lr", "eps"}) == "eps");
  CHECK(nearest("max_grad_norm", {"lr", "max_norm"}) == "max_norm");
  CHECK(nearest("learning_rate", {"steps"}).empty());  // only where the name exists
  CHECK(nearest("half", {"half", "fp16"}) == "half");
}

TEST_CASE("suggestion: without a near name the other hint is used") {
  CHECK(suggestion("hots", {"host", "device"}) == "did you mean host?");
  CHECK(suggestion("banana", {"host", "device"}) == "use host or device");
  CHECK(suggestion("banana", {"a", "b", "c"}) == "use a, b or c");
  CHECK(suggestion("banana", {"host"}, "see the list") == "see the list");
}
