#include "common/checkpoint/element_sums.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace zeroproof {
namespace {

constexpr std::int64_t most_buckets = 64;
constexpr std::int64_t least_bucket = 1024;

/// At most that many elements per thread at a time; the positions in one such range share their
/// upper half.
constexpr std::int64_t run_numel = 65536;

std::int64_t bucket_for(std::int64_t numel) {
  std::int64_t bucket = least_bucket;
  while ((numel + bucket - 1) / bucket > most_buckets) bucket *= 2;
  return bucket;
}

// Integers: the same bits on any instruction set, and four to eight at a time with wide vectors.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ZP_WIDE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ZP_WIDE_CLONES
#endif

/// A NaN, exponent all ones and some bit below it, as R9 defines it.
template <class Bits>
std::uint32_t canonical(Bits bits, Bits infinity) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const bool nan = static_cast<Bits>(bits & static_cast<Bits>(~sign)) > infinity;
  return nan ? static_cast<Bits>(~sign) : bits;
}

/// In blocks, factors and bits first: the only 64-bit work left is products of 32 bits by 32 bits.
template <class Bits>
[[gnu::always_inline]] inline std::uint64_t sum_in_blocks(const Bits* bits, std::int64_t count,
                                                          std::uint64_t place, Bits infinity) {
  constexpr std::int64_t block = 256, ahead = 4, line = 64 / sizeof(Bits);
  std::array<std::uint32_t, block> words;
  std::array<std::uint32_t, block> factors;
  const auto high = static_cast<std::uint32_t>(place >> 32);
  std::uint64_t sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const auto low = static_cast<std::uint32_t>(place + static_cast<std::uint64_t>(begin));
    const auto numel = static_cast<std::uint32_t>(std::min(block, count - begin));
    // Prefetches across page boundaries, where the hardware prefetcher stops.
    if (count - begin >= (ahead + 1) * block) {
      for (std::int64_t i = 0; i < block; i += line)
        __builtin_prefetch(bits + begin + ahead * block + i);
    }
    for (std::uint32_t i = 0; i < numel; ++i) {
      factors[i] = element_factor(low + i, high);
      words[i] = canonical(bits[begin + i], infinity) ^ element_salt;
    }
    for (std::uint32_t i = 0; i < numel; ++i)
      sum += static_cast<std::uint64_t>(words[i]) * factors[i];
  }
  return sum;
}

ZP_WIDE_CLONES std::uint64_t sum_of(const std::uint32_t* bits, std::int64_t count,
                                    std::uint64_t place) {
  return sum_in_blocks(bits, count, place, std::uint32_t{0x7f800000});
}

ZP_WIDE_CLONES std::uint64_t sum_of(const std::uint16_t* bits, std::int64_t count,
                                    std::uint64_t place, std::uint16_t infinity) {
  return sum_in_blocks(bits, count, place, infinity);
}

ZP_WIDE_CLONES std::uint64_t sum_of(const std::uint8_t* bits, std::int64_t count,
                                    std::uint64_t place, std::uint8_t infinity) {
  return sum_in_blocks(bits, count, place, infinity);
}

/// Sum of elements of a format, at an index of the buffer's memory.
std::uint64_t sum_of(const TensorView& view, std::int64_t at, std::int64_t count,
                     std::uint64_t place) {
  const auto* const bytes = static_cast<const std::byte*>(view.data) + at * num_bytes(view.dtype);
  switch (num_bytes(view.dtype)) {
    case 1:  // e4m3 has no infinity: the code before its NaN
      return sum_of(reinterpret_cast<const std::uint8_t*>(bytes), count, place,
                    static_cast<std::uint8_t>(view.dtype == DType::e5m2 ? 0x7c : 0x7e));
    case 2:
      return sum_of(reinterpret_cast<const std::uint16_t*>(bytes), count, place,
                    static_cast<std::uint16_t>(view.dtype == DType::bf16 ? 0x7f80 : 0x7c00));
    default:
      return sum_of(reinterpret_cast<const std::uint32_t*>(bytes), count, place);
  }
}

}  // namespace

ElementSums::ElementSums(const FlatLayout& whole, std::vector<OwnPiece> own, int num_threads)
    : whole_(whole),
      own_(std::move(own)),
      thread_pool_(num_threads),
      bucket_numel_(bucket_for(whole.padded_numel())),
      num_buckets_(
          std::max<std::int64_t>(1, (whole.padded_numel() + bucket_numel_ - 1) / bucket_numel_)) {}

std::vector<ElementSums::Run> ElementSums::runs_of(const ExposedBuffer& buffer) const {
  std::vector<Run> runs;
  for (const OwnPiece& own : own_) {
    const CheckpointPiece& piece = own.piece;
    const std::int64_t tensor_begin = whole_.tensors()[piece.tensor].begin;
    const std::int64_t at = place_of(own, buffer);
    for (std::int64_t e = 0; e < piece.numel;) {
      const std::int64_t place = tensor_begin + piece.element(e);
      std::int64_t count =
          std::min(piece.numel - e, piece.row_numel - (piece.first + e) % piece.row_numel);
      count = std::min(count, bucket_numel_ - place % bucket_numel_);
      count = std::min(count, run_numel - place % run_numel);
      runs.push_back({place, at + e, count});
      e += count;
    }
  }
  return runs;
}

void ElementSums::add(const ExposedBuffer& buffer) {
  const std::vector<Run> runs = runs_of(buffer);
  const auto num_shares = static_cast<std::size_t>(thread_pool_.num_threads());
  // A share is a row of ranges, with nearly as many elements as any other share.
  std::vector<std::size_t> begins(num_shares + 1, runs.size());
  std::int64_t numel = 0, before = 0;
  for (const Run& run : runs) numel += run.numel;
  for (std::size_t i = 0, share = 0; i < runs.size(); before += runs[i++].numel) {
    for (; share < num_shares && before * static_cast<std::int64_t>(num_shares) >=
                                     numel * static_cast<std::int64_t>(share);
         ++share)
      begins[share] = i;
  }
  const auto num_buckets = static_cast<std::size_t>(num_buckets_);
  std::vector<std::uint64_t> of_shares(num_shares * num_buckets, 0);
  thread_pool_.for_each(static_cast<std::int64_t>(num_shares), [&](std::int64_t number) {
    const auto share = static_cast<std::size_t>(number);
    for (std::size_t i = begins[share]; i < begins[share + 1]; ++i) {
      const Run& run = runs[i];
      const auto place = static_cast<std::uint64_t>(run.place);
      of_shares[share * num_buckets + static_cast<std::size_t>(run.place / bucket_numel_)] +=
          sum_of(buffer.view, run.at, run.numel, place);
    }
  });
  std::vector<std::uint64_t>& sums = sums_[buffer.id];
  sums.assign(num_buckets, 0);
  for (std::size_t i = 0; i < of_shares.size(); ++i) sums[i % num_buckets] += of_shares[i];
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
