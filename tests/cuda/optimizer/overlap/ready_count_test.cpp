#include "cuda/optimizer/overlap/ready_count.hpp"

#include <doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda/optimizer/overlap/bucket_parts.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/plan_shapes.hpp"

namespace zeroproof::tests::ready_count_test {
namespace {

using cuda::bucket_parts;
using cuda::ReadyCount;

std::string text_of_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("a bucket is complete with the last report of its last unit") {
  ReadyCount ready({2, 1, 0, 1}, {{0}, {0, 1}, {1}, {1, 3}, {3}});
  ReadyCount::Completed completed = ready.report(1);
  CHECK(completed.unit);
  CHECK(completed.buckets == std::vector<int>{2});
  completed = ready.report(0);
  CHECK_FALSE(completed.unit);
  CHECK(completed.buckets.empty());
  CHECK(ready.report(0).buckets == std::vector<int>{1, 0});
  expect_error(ErrorCode::internal, [&] { ready.finish(); });
  CHECK(ready.report(3).buckets == std::vector<int>{4, 3});
  ready.finish();
  for (int bucket = 0; bucket < 5; ++bucket) ready.require_complete(bucket);
  ready.restart();
  expect_error(ErrorCode::internal, [&] { ready.require_complete(2); });
  CHECK(ready.report(1).buckets == std::vector<int>{2});
}

TEST_CASE("errors of reporting name the unit, the bucket and the counts") {
  ReadyCount ready({2, 1}, {{0}, {0, 1}});
  ready.report(1);
  CHECK(text_of_error([&] {
          ready.report(1);
        }).find("unit 1 reported its gradient 2 times and 1 are") == 0);
  ready.report(0);
  const std::string lacks = text_of_error([&] { ready.finish(); });
  CHECK(lacks.find("bucket 0 is not complete: it lacks unit 0 (1 of 2 reports)") == 0);
  CHECK(text_of_error([&] { ready.require_complete(1); }).find("bucket 1 is not complete") == 0);
  expect_error(ErrorCode::internal, [&] { ready.report(2); });
  expect_error(ErrorCode::internal, [&] { ready.report(-1); });
  expect_error(ErrorCode::internal, [&] { ready.require_complete(2); });
  expect_error(ErrorCode::invalid_argument, [] { ReadyCount({1}, {{1}}); });
  expect_error(ErrorCode::invalid_argument, [] { ReadyCount({1, 0}, {{0, 1}}); });
  expect_error(ErrorCode::invalid_argument, [] { ReadyCount({1}, {{0, 0}}); });
}

TEST_CASE("bucket parts: intersections of buckets and units") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const cuda::LayerSchedule shape = random_shape(seed);
    const auto parts = bucket_parts(shape.units, shape.buckets);
    for (std::size_t b = 0; b < parts.size(); ++b) {
      std::int64_t end = shape.buckets[b].begin;
      for (const cuda::BucketPart& part : parts[b]) {
        const FlatRange unit = shape.units[part.unit];
        REQUIRE(part.range.begin == end);
        REQUIRE(part.range.numel() > 0);
        REQUIRE((part.range.begin >= unit.begin && part.range.end <= unit.end));
        REQUIRE((part.range.end == unit.end || part.range.end == shape.buckets[b].end));
        end = part.range.end;
      }
      REQUIRE(end == shape.buckets[b].end);
    }
  }
}

}  // namespace
}  // namespace zeroproof::tests::ready_count_test
