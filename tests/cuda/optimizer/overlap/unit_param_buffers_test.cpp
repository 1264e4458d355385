#include "cuda/optimizer/overlap/unit_param_buffers.hpp"

#include <doctest.h>

#include "common/comm/self.hpp"
#include "cuda/optimizer/overlap/unit_grads.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/layered_fixtures.hpp"

namespace zeroproof::tests::unit_param_buffers_test {
namespace {

using cuda::MemoryLedger;
using cuda::UnitGrads;
using cuda::UnitParamBuffers;

constexpr auto param_full = static_cast<std::size_t>(MemoryClass::param_full);
constexpr auto grad = static_cast<std::size_t>(MemoryClass::grad);

TEST_CASE("UnitParamBuffers: a unit is available from gather to release, in its gathered version") {
  const FlatLayout layout({{"a", {1000}}, {"b", {1500}}});
  const std::vector<FlatRange> units = {{0, 1024}, {1024, 3072}};
  const auto comm = make_self_communicator();
  FakeGatherer gatherer(*comm, layout);
  MemoryLedger ledger;
  UnitParamBuffers params(units, {false, true}, DType::bf16, gatherer, ledger);
  const auto text_of = [&](int unit) -> std::string {
    try {
      static_cast<void>(params.get(unit));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::internal);
      return error.what();
    }
    return {};
  };

  gatherer.casts = 4;
  CHECK(text_of(0).find(
            "unit 0 is used without having been gathered and the latest version is 4") == 0);
  expect_error(ErrorCode::internal, [&] { params.gather(0); });
  expect_error(ErrorCode::internal, [&] { params.release(0); });
  params.allocate(0);
  expect_error(ErrorCode::internal, [&] { params.allocate(0); });
  CHECK(text_of(0).find("unit 0 is used without having been gathered") == 0);
  params.gather(0);
  CHECK(params.get(0).numel == 1024);
  CHECK(ledger.use().now[param_full] == 2048);
  CHECK(load(params.get(0), 999) == param_value(999, 4));
  gatherer.casts = 5;
  CHECK(text_of(0).find(
            "unit 0 is used with parameters of version 4 and the latest version is 5") == 0);
  params.gather(0);
  CHECK(load(params.get(0), 999) == param_value(999, 5));
  params.release(0);
  CHECK(ledger.use().now[param_full] == 0);
  CHECK(text_of(0).find("unit 0 is used without having been gathered") == 0);
  params.allocate(0);  // earlier contents are not visible in a new buffer
  expect_error(ErrorCode::internal, [&] { static_cast<void>(params.get(0)); });
  params.release(0);

  gatherer.num_gathers = 0;
  params.gather_persistent();
  params.gather_persistent();
  CHECK(gatherer.num_gathers == 1);
  params.release(1);
  params.release_all();
  CHECK(load(params.get(1), 1000) == param_value(2024, 5));
  gatherer.casts = 6;
  CHECK(text_of(1).find("version 5 and the latest version is 6") != std::string::npos);
  params.gather_persistent();
  CHECK(load(params.get(1), 1000) == param_value(2024, 6));
  CHECK(gatherer.num_gathers == 2);
  CHECK(ledger.use().now[param_full] == 4096);
  CHECK((params.is_persistent(1) && !params.is_persistent(0)));
  expect_error(ErrorCode::internal, [&] { static_cast<void>(params.get(2)); });
  expect_error(ErrorCode::internal, [&] { params.allocate(-1); });
  expect_error(ErrorCode::invalid_argument,
               [&] { UnitParamBuffers(units, {true}, DType::bf16, gatherer, ledger); });
}

/// Writes one byte past the end.
class Overrunning : public FakeGatherer {
 public:
  using FakeGatherer::FakeGatherer;
  void gather(const FlatRange& unit, const TensorView& full) override {
    FakeGatherer::gather(unit, full);
    static_cast<char*>(full.data)[full.num_bytes()] = 1;
  }
};

TEST_CASE("writing outside a unit's buffer is found when it is released") {
  const FlatLayout layout({{"a", {1000}}});
  const auto comm = make_self_communicator();
  Overrunning gatherer(*comm, layout);
  MemoryLedger ledger;
  UnitParamBuffers params({{0, 1024}}, {}, DType::bf16, gatherer, ledger);
  params.allocate(0);
  params.gather(0);
  expect_error(ErrorCode::internal, [&] { params.release(0); });
  CHECK(ledger.use().now[param_full] == 0);
}

TEST_CASE("gradients of units and buckets live, alias and are sealed") {
  MemoryLedger ledger;
  // bucket 0 in unit 0, bucket 1 in units 0, 1, 3 (2 is empty), bucket 2 in unit 3
  UnitGrads grads({{0, 20}, {20, 30}, {30, 30}, {30, 60}}, {{0, 15}, {15, 40}, {40, 60}},
                  DType::bf16, ledger);
  for (const int unit : {0, 1, 3}) {
    expect_error(ErrorCode::internal, [&] { static_cast<void>(grads.unit(unit)); });
    grads.allocate_unit(unit);
    expect_error(ErrorCode::internal, [&] { grads.allocate_unit(unit); });
  }
  const auto fill = [&](int unit, std::int64_t begin) {
    for (std::int64_t i = 0; i < grads.unit(unit).numel; ++i) {
      store(grads.unit(unit), i, static_cast<float>(begin + i));
    }
  };
  CHECK(load(grads.unit(0), 3) != load(grads.unit(0), 3));  // NaN until written
  fill(0, 0);
  fill(1, 20);
  fill(3, 30);
  expect_error(ErrorCode::internal, [&] { grads.seal(1); });
  grads.allocate_bucket(1);
  const void* const first = grads.unit(0).data;
  const TensorView unit = grads.unit(3);
  CHECK(ledger.use().now[grad] == 2 * (20 + 10 + 30 + 25));
  for (const int unit : {3, 0, 1}) {
    if (unit == 0) expect_error(ErrorCode::internal, [&] { static_cast<void>(grads.bucket(0)); });
    grads.seal(unit);
    expect_error(ErrorCode::internal, [&] { grads.seal(unit); });
    expect_error(ErrorCode::internal, [&] { static_cast<void>(grads.unit(unit)); });
  }
  for (std::int64_t i = 0; i < 25; ++i)
    REQUIRE(load(grads.bucket(1), i) == static_cast<float>(15 + i));
  CHECK(grads.bucket(2).numel == 20);
  CHECK(load(grads.bucket(2), 19) == 59);
  CHECK(load(grads.bucket(0), 14) == 14);
  CHECK(grads.bucket(0).data == first);
  grads.free_unit(0);
  expect_error(ErrorCode::internal, [&] { static_cast<void>(grads.bucket(0)); });
  expect_error(ErrorCode::internal, [&] { grads.free_unit(0); });
  expect_error(ErrorCode::internal, [&] { grads.allocate_bucket(0); });
  expect_error(ErrorCode::internal, [&] { static_cast<void>(grads.bucket(3)); });
  expect_error(ErrorCode::internal, [&] { static_cast<void>(grads.unit(-1)); });
  static_cast<char*>(unit.data)[unit.num_bytes()] = 0;
  expect_error(ErrorCode::internal, [&] { grads.free_unit(3); });
  grads.free_all();
  CHECK(ledger.use().now[grad] == 0);
}

}  // namespace
}  // namespace zeroproof::tests::unit_param_buffers_test
