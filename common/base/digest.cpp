#include "common/base/digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>

#include "common/base/canonical_copy.hpp"
#include "common/base/wide_digest.hpp"

namespace zeroproof {

static_assert(std::endian::native == std::endian::little,
              "digests are defined over little-endian values");

namespace {

constexpr std::int64_t block_bytes = 4096;

void add_floats(XXH3_state_t* state, const TensorView& view) {
  alignas(8) std::array<std::byte, block_bytes> buffer;
  const std::int64_t width = num_bytes(view.dtype), block = block_bytes / width;
  for (std::int64_t begin = 0; begin < view.numel; begin += block) {
    const std::int64_t count = std::min(block, view.numel - begin);
    copy_canonical({static_cast<std::byte*>(view.data) + begin * width, view.dtype, count}, buffer);
    XXH3_128bits_update(state, buffer.data(), static_cast<std::size_t>(count * width));
  }
}

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(const TensorView& view) {
  visit_format(view.dtype, [&](auto format) {
    if constexpr (format.is_float) {
      add_floats(state_->xxh, view);
    } else if (view.numel > 0) {
      XXH3_128bits_update(state_->xxh, view.data, static_cast<std::size_t>(view.num_bytes()));
    }
  });
}

void Hasher::add(std::string_view text) {
  add(std::uint64_t{text.size()});
  XXH3_128bits_update(state_->xxh, text.data(), text.size());
}

void Hasher::add(std::uint64_t value) { add(TensorView{&value, DType::u64, 1}); }
void Hasher::add(double value) { add(TensorView{&value, DType::fp64, 1}); }

Digest Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

Digest raw_digest(const void* data, std::int64_t num_bytes) {
#if defined(ZP_WIDE_DIGEST)
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide) {
    std::uint64_t halves[2];
    wide_digest(data, static_cast<std::size_t>(num_bytes), halves);
    return {halves[0], halves[1]};
  }
#endif
  const XXH128_hash_t hash = XXH3_128bits(data, static_cast<std::size_t>(num_bytes));
  return {hash.high64, hash.low64};
}

std::string to_hex(const Digest& digest) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t half : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += digits[half >> shift & 0xFU];
  }
  return text;
}

}  // namespace zeroproof
