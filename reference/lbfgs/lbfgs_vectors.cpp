#include "reference/lbfgs/lbfgs_vectors.hpp"

#include <algorithm>
#include <initializer_list>

#include "reference/blocks.hpp"
#include "reference/buffers.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// Adds the integers of normalised limbs over ranks, in one message. Digits below 2^32 can be added
/// for 2^32 ranks.
void add_over_ranks(Communicator& comm, std::initializer_list<NormLimbs*> sums) {
  std::vector<std::uint64_t> words;
  for (const NormLimbs* sum : sums) {
    words.insert(words.end(), sum->limbs.begin(), sum->limbs.end());
    words.insert(words.end(), {sum->nan_count, sum->inf_count});
  }
  comm.all_reduce(words, IntegerReduce::sum);
  auto word = words.begin();
  for (NormLimbs* sum : sums) {
    for (std::uint64_t& limb : sum->limbs) limb = *word++;
    sum->nan_count = *word++;
    sum->inf_count = *word++;
  }
}

ConstArray block(const ShardVector& v, std::int64_t begin, std::int64_t count) {
  return as_array(part(Span<const float>(v), begin, count));
}
MutableArray block(ShardVector& v, std::int64_t begin, std::int64_t count) {
  return as_array(part(Span<float>(v), begin, count));
}

}  // namespace

ShardVectors::ShardVectors(const LbfgsSetup& setup)
    : comm_(setup.comm),
      ranges_(setup.shards->shard(setup.comm->rank())),
      pieces_(setup.layout->pieces(ranges_)),
      shard_numel_(setup.shards->shard_numel(setup.comm->rank())) {}

template <class Body>
void ShardVectors::for_each_part(Body body) const {
  for (const Piece& piece : pieces_) {
    for_each_block(piece.numel, [&](std::int64_t begin, std::int64_t count) {
      body(piece.local_begin + begin, count);
    });
  }
}

ShardVector ShardVectors::make() const { return nan_buffer(shard_numel_); }

ShardVector ShardVectors::shard_of(Span<const float> full) const {
  ShardVector result = make();
  for (const Piece& piece : pieces_) {
    std::ranges::copy(part(full, piece.global_begin, piece.numel), at(result, piece).begin());
  }
  return result;
}

void ShardVectors::negate(const ShardVector& a, ShardVector& result) const {
  for_each_part([&](std::int64_t begin, std::int64_t count) {
    block(result, begin, count) = -block(a, begin, count);
  });
}

void ShardVectors::subtract(const ShardVector& a, const ShardVector& b, ShardVector& result) const {
  for_each_part([&](std::int64_t begin, std::int64_t count) {
    block(result, begin, count) = block(a, begin, count) - block(b, begin, count);
  });
}

void ShardVectors::multiply(float a, const ShardVector& v, ShardVector& result) const {
  for_each_part([&](std::int64_t begin, std::int64_t count) {
    block(result, begin, count) = a * block(v, begin, count);
  });
}

void ShardVectors::add(const ShardVector& a, const ShardVector& b, ShardVector& result) const {
  for_each_part([&](std::int64_t begin, std::int64_t count) {
    block(result, begin, count) = block(a, begin, count) + block(b, begin, count);
  });
}

void ShardVectors::add_product(float a, const ShardVector& v, ShardVector& result) const {
  for_each_part([&](std::int64_t begin, std::int64_t count) {
    const Block p = a * block(v, begin, count);
    block(result, begin, count) += p;
  });
}

void ShardVectors::subtract_product(float a, const ShardVector& v, ShardVector& result) const {
  for_each_part([&](std::int64_t begin, std::int64_t count) {
    const Block p = a * block(v, begin, count);
    block(result, begin, count) -= p;
  });
}

double ShardVectors::dot(const ShardVector& a, const ShardVector& b) const {
  DotLimbs limbs;
  for (const Piece& piece : pieces_) {
    dot_accumulate({}, at(Span<const float>(a), piece), at(Span<const float>(b), piece), limbs);
  }
  dot_normalise(limbs);
  add_over_ranks(*comm_, {&limbs.positive, &limbs.negative});
  return dot_finish(limbs);
}

double ShardVectors::sum_abs(const ShardVector& a) const {
  NormLimbs limbs;
  for (const Piece& piece : pieces_)
    grad_abs_accumulate({}, at(Span<const float>(a), piece), limbs);
  grad_norm_normalise(limbs);
  add_over_ranks(*comm_, {&limbs});
  return grad_abs_finish(limbs);
}

double ShardVectors::max_abs(const ShardVector& a) const {
  std::uint32_t amax = 0;
  for (const Piece& piece : pieces_) grad_max_accumulate({}, at(Span<const float>(a), piece), amax);
  std::uint64_t largest = amax;
  comm_->all_reduce({&largest, 1}, IntegerReduce::max);
  return grad_max_finish(static_cast<std::uint32_t>(largest));
}

}  // namespace zeroproof::reference
