#include "common/base/guarded_buffer.hpp"

#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "common/base/float_formats.hpp"

namespace guarded_buffer_test {

using namespace zeroproof;

namespace {

constexpr DType all_dtypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::fp64, DType::u32,
                                DType::u64,  DType::e4m3, DType::e5m2, DType::u16,  DType::e8m0};

bool is_nan(const TensorView& view, std::int64_t i) {
  switch (view.dtype) {
    case DType::fp32:
      return std::isnan(static_cast<const float*>(view.data)[i]);
    case DType::fp64:
      return std::isnan(static_cast<const double*>(view.data)[i]);
    case DType::bf16:
      return std::isnan(to_float(static_cast<const bf16*>(view.data)[i]));
    case DType::fp16:
      return std::isnan(to_float(static_cast<const fp16*>(view.data)[i]));
    case DType::e4m3:
      return std::isnan(to_float(static_cast<const e4m3*>(view.data)[i]));
    case DType::e5m2:
      return std::isnan(to_float(static_cast<const e5m2*>(view.data)[i]));
    case DType::u32:
      return static_cast<const std::uint32_t*>(view.data)[i] == UINT32_MAX;
    case DType::u64:
      return static_cast<const std::uint64_t*>(view.data)[i] == UINT64_MAX;
    case DType::u16:
      return static_cast<const std::uint16_t*>(view.data)[i] == UINT16_MAX;
    case DType::e8m0:
      return std::isnan(to_float(static_cast<const e8m0*>(view.data)[i]));
  }
  return false;
}

bool all_nan(const GuardedBuffer& buffer) {
  for (std::int64_t i = 0; i < buffer.numel(); ++i) {
    if (!is_nan(buffer.view(), i)) return false;
  }
  return true;
}

unsigned char* bytes(const GuardedBuffer& buffer) {
  return static_cast<unsigned char*>(buffer.data());
}

/// Whether a changed byte at an offset from the start of the payload is detected; the byte is restored.
bool notices_write_at(const GuardedBuffer& buffer, std::int64_t offset) {
  unsigned char& byte = bytes(buffer)[offset];
  byte ^= 1;
  const bool noticed = !buffer.guards_intact();
  byte ^= 1;
  return noticed;
}

}  // namespace

TEST_CASE("guarded buffer: initially NaN, aligned, of the requested size") {
  for (const DType dtype : all_dtypes) {
    for (const std::int64_t numel : {0, 1, 2, 3, 7, 63, 64, 65, 1000}) {
      CAPTURE(name(dtype));
      CAPTURE(numel);
      const GuardedBuffer buffer(numel, dtype);
      CHECK(buffer.numel() == numel);
      CHECK(buffer.dtype() == dtype);
      CHECK(buffer.view().data == buffer.data());
      CHECK(buffer.view().dtype == dtype);
      CHECK(buffer.view().numel == numel);
      CHECK(buffer.view().num_bytes() == numel * num_bytes(dtype));
      CHECK(buffer.data() != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
      CHECK(all_nan(buffer));
      for (std::int64_t i = 0; i < buffer.view().num_bytes(); ++i)
        REQUIRE(bytes(buffer)[i] == 0xFF);
      CHECK(buffer.guards_intact());
    }
  }
}

TEST_CASE("guarded buffer: every byte of both red zones is checked, and none of the payload") {
  for (const DType dtype : all_dtypes) {
    for (const std::int64_t numel : {0, 1, 3, 33}) {
      CAPTURE(name(dtype));
      CAPTURE(numel);
      const GuardedBuffer buffer(numel, dtype);
      const std::int64_t end = buffer.view().num_bytes();
      for (std::int64_t i = 1; i <= 64; ++i) {
        CHECK(notices_write_at(buffer, -i));
        CHECK(notices_write_at(buffer, end + i - 1));
      }
      for (std::int64_t i = 0; i < end; ++i) CHECK_FALSE(notices_write_at(buffer, i));
      CHECK(buffer.guards_intact());
    }
  }
}

// Writes of 0 and of NaN bytes are the most likely errors.
TEST_CASE("guarded buffer: a stray 0 or 0xFF in a red zone is detected") {
  for (const unsigned char stray : {0x00, 0xFF}) {
    GuardedBuffer before(5, DType::bf16);
    bytes(before)[-1] = stray;
    CHECK_FALSE(before.guards_intact());
    GuardedBuffer after(5, DType::bf16);
    bytes(after)[10] = stray;
    CHECK_FALSE(after.guards_intact());
  }
}

TEST_CASE("guarded buffer: poison makes the payload NaN again and does not change the red zones") {
  GuardedBuffer buffer(9, DType::fp32);
  const Span<float> values = buffer.as<float>();
  CHECK(values.size() == 9);
  CHECK(values.data() == buffer.data());
  for (float& value : values) value = 1.5F;
  CHECK_FALSE(all_nan(buffer));
  CHECK(buffer.guards_intact());
  buffer.poison();
  CHECK(all_nan(buffer));
  CHECK(buffer.guards_intact());
  bytes(buffer)[36] = 0;
  buffer.poison();
  CHECK_FALSE(buffer.guards_intact());
}

TEST_CASE("guarded buffer: without memory") {
  GuardedBuffer nothing;
  CHECK(nothing.data() == nullptr);
  CHECK(nothing.numel() == 0);
  CHECK(nothing.view().numel == 0);
  CHECK(nothing.as<float>().empty());
  CHECK(nothing.guards_intact());
  nothing.poison();
  CHECK(nothing.data() == nullptr);
}

TEST_CASE("guarded buffer: a move transfers memory, contents and a damaged red zone") {
  GuardedBuffer first(4, DType::u64);
  first.as<std::uint64_t>()[3] = 17;
  void* const memory = first.data();
  GuardedBuffer second(std::move(first));
  CHECK(second.data() == memory);
  CHECK(second.numel() == 4);
  CHECK(second.dtype() == DType::u64);
  CHECK(second.as<std::uint64_t>()[3] == 17);
  CHECK(second.guards_intact());

  GuardedBuffer third(100, DType::fp16);
  bytes(second)[-64] = 0;
  third = std::move(second);
  CHECK(third.data() == memory);
  CHECK(third.numel() == 4);
  CHECK(third.dtype() == DType::u64);
  CHECK_FALSE(third.guards_intact());
}

}  // namespace guarded_buffer_test
