#include <doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"

using zeroproof::Communicator;
using zeroproof::Error;
using zeroproof::ErrorCode;
using zeroproof::IntegerReduce;
using zeroproof::Span;
using Blocks = std::vector<Span<std::byte>>;
using ConstBlocks = std::vector<Span<const std::byte>>;

namespace {

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::byte>(7 * i + 1);
  return data;
}

}  // namespace

TEST_CASE("self: every collective is a copy") {
  const auto comm = zeroproof::make_self_communicator();
  CHECK(comm->rank() == 0);
  CHECK(comm->world_size() == 1);
  CHECK(comm->name() == "self");
  for (const std::size_t count : {0, 1, 1000}) {
    const std::vector<std::byte> sent = some_bytes(count);
    std::vector<std::byte> got(count);
    comm->all_to_all(ConstBlocks{sent}, Blocks{got});
    CHECK(got == sent);
    std::vector<std::byte> gathered(count);
    comm->all_gather(sent, Blocks{gathered});
    CHECK(gathered == sent);
    comm->all_gather(gathered, Blocks{gathered});
    CHECK(gathered == sent);
    comm->broadcast(gathered, 0);
    CHECK(gathered == sent);
  }
  for (const IntegerReduce op :
       {IntegerReduce::sum, IntegerReduce::max, IntegerReduce::bitwise_or}) {
    std::array<std::uint64_t, 3> data = {0, 5, ~std::uint64_t{0}};
    comm->all_reduce(data, op);
    CHECK(data == std::array<std::uint64_t, 3>{0, 5, ~std::uint64_t{0}});
  }
  comm->barrier();
}

TEST_CASE("self: wrong arguments") {
  std::vector<std::byte> four(4);
  std::vector<std::byte> five(5);
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  CHECK(code_of([&] { zeroproof::make_self_communicator()->broadcast(four, 1); }) ==
        ErrorCode::invalid_argument);
  CHECK(code_of([&] { zeroproof::make_self_communicator()->broadcast(four, -1); }) ==
        ErrorCode::invalid_argument);
  CHECK(code_of([&] { zeroproof::make_self_communicator()->all_gather(four, Blocks{}); }) ==
        ErrorCode::invalid_argument);
  CHECK(code_of([&] {
          zeroproof::make_self_communicator()->all_to_all(ConstBlocks{four, four}, Blocks{four});
        }) == ErrorCode::invalid_argument);
  CHECK(code_of([&] { zeroproof::make_self_communicator()->all_gather(four, Blocks{five}); }) ==
        ErrorCode::comm);
}

TEST_CASE("self: stays failed after abort") {
  const auto comm = zeroproof::make_self_communicator();
  comm->abort("no more input");
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::string text;
    try {
      comm->barrier();
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::comm);
      text = error.what();
    }
    CHECK(text.find("rank 0 ended: no more input") == 0);
  }
}
