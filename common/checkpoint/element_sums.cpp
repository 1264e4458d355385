#include "common/checkpoint/element_sums.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace zeroproof {
namespace {

constexpr std::int64_t most_buckets = 64;
constexpr std::int64_t least_bucket = 1024;

std::int64_t bucket_for(std::int64_t numel) {
  std::int64_t bucket = least_bucket;
  while ((numel + bucket - 1) / bucket > most_buckets) bucket *= 2;
  return bucket;
}

// Integers: the same bits on any instruction set, and four to eight at a time where there are wide ones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ZP_WIDE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ZP_WIDE_CLONES
#endif

/// A NaN, exponent all ones and some bit below it, as R9 writes it.
template <class Bits>
std::uint32_t canonical(Bits bits, Bits infinity) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const bool nan = static_cast<Bits>(bits & static_cast<Bits>(~sign)) > infinity;
  return nan ? static_cast<Bits>(~sign) : bits;
}

ZP_WIDE_CLONES std::uint64_t sum_of(const std::uint32_t* bits, std::int64_t count, std::uint64_t place) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum +=
        element_number(place + static_cast<std::uint64_t>(i), canonical(bits[i], std::uint32_t{0x7f800000}));
  return sum;
}

ZP_WIDE_CLONES std::uint64_t sum_of(const std::uint16_t* bits, std::int64_t count, std::uint64_t place,
                                    std::uint16_t infinity) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += element_number(place + static_cast<std::uint64_t>(i), canonical(bits[i], infinity));
  return sum;
}

}  // namespace

ElementSums::ElementSums(const FlatLayout& whole, std::vector<OwnPiece> own)
    : whole_(whole),
      own_(std::move(own)),
      bucket_numel_(bucket_for(whole.padded_numel())),
      num_buckets_(std::max<std::int64_t>(1, (whole.padded_numel() + bucket_numel_ - 1) / bucket_numel_)) {}

void ElementSums::add(const ExposedBuffer& buffer) {
  std::vector<std::uint64_t>& sums = sums_[buffer.id];
  sums.assign(static_cast<std::size_t>(num_buckets_), 0);
  const auto* const bytes = static_cast<const std::byte*>(buffer.view.data);
  const DType dtype = buffer.view.dtype;
  for (const OwnPiece& own : own_) {
    const CheckpointPiece& piece = own.piece;
    const std::int64_t tensor_begin = whole_.tensors()[static_cast<std::size_t>(piece.tensor)].begin;
    const std::int64_t at = place_of(own, buffer);
    for (std::int64_t e = 0; e < piece.numel;) {
      // As far as neighbours are neighbours in the undistributed model, and in one bucket.
      const std::int64_t place = tensor_begin + piece.element(e);
      std::int64_t count = std::min(piece.numel - e, piece.row_numel - (piece.first + e) % piece.row_numel);
      count = std::min(count, bucket_numel_ - place % bucket_numel_);
      std::uint64_t& sum = sums[static_cast<std::size_t>(place / bucket_numel_)];
      const auto from = static_cast<std::uint64_t>(place);
      if (dtype == DType::fp32) {
        sum += sum_of(reinterpret_cast<const std::uint32_t*>(bytes) + at + e, count, from);
      } else {
        const auto infinity = static_cast<std::uint16_t>(dtype == DType::bf16 ? 0x7f80 : 0x7c00);
        sum += sum_of(reinterpret_cast<const std::uint16_t*>(bytes) + at + e, count, from, infinity);
      }
      e += count;
    }
  }
}

std::map<BufferId, std::vector<std::uint64_t>> ElementSums::take(Communicator& world) {
  std::vector<std::uint64_t> all;
  for (const auto& [id, sums] : sums_) all.insert(all.end(), sums.begin(), sums.end());
  world.all_reduce(all, IntegerReduce::sum);
  auto result = std::exchange(sums_, {});
  std::size_t next = 0;
  for (auto& [id, sums] : result) {
    for (std::uint64_t& sum : sums) sum = all[next++];
  }
  return result;
}

}  // namespace zeroproof
