// Cross-entropy over a split vocabulary compared with its formulas, with smoothing and z-loss.

#include "cuda/host/operations.hpp"
#include "verification/bench/research/errors/batch.hpp"

namespace zeroproof::errors {
namespace {

namespace h = cuda::host;

constexpr std::int64_t rows = 64;
constexpr VocabularyPart part{100, 2, 2};  // the second quarter: 25 columns
constexpr std::int64_t width = 25, elements = rows * width;
constexpr CrossEntropyOptions options{0.1, 1e-2F};

std::size_t at(std::int64_t r) { return static_cast<std::size_t>(r); }

/// The number whose key a row has [Fusion:cross_entropy]; here it is positive, so the key is its bits and the sign bit.
std::uint32_t key_of(float positive) {
  return std::bit_cast<std::uint32_t>(positive) + 0x80000000U;
}

std::vector<std::int32_t> targets_of(Batch& batch, std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> targets(rows);
  for (std::int32_t& target : targets) {
    target = static_cast<std::int32_t>(first + static_cast<std::int64_t>(batch.word() % at(count)));
  }
  return targets;
}

/// [Fusion:smoothing]
constexpr double c_of(double size) { return options.label_smoothing * size / (size - 1); }

void sums(Batch& batch) {
  const std::vector<float> logits = batch.numbers(elements), m = batch.positive(rows, 2, 3);
  std::vector<std::uint32_t> largest, bits(rows);
  for (const float one : m) largest.push_back(key_of(one));
  std::vector<float> exp_sum(rows), shifted_sum(rows);
  h::cross_entropy_sum(batch.exec, part, logits, largest, targets_of(batch, part.begin(), width),
                       exp_sum, shifted_sum, bits);
  // A quarter of the vocabulary has two blocks, of at most 13 columns, and one addition of the tree: not more additions
  // than eight blocks of 100 columns.
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto d = [&](std::int64_t j) {
      return j < width ? given(logits[at(r * width + j)]) - given(m[at(r)]) : Bounded{};
    };
    const auto e = [&](std::int64_t j) { return j < width ? exp(d(j)) : Bounded{}; };
    batch.of("exp_sum").look(sum(part.size, e), exp_sum[at(r)]);
    batch.of("shifted_sum").look(sum(part.size, d), shifted_sum[at(r)]);
  }
}

void losses(Batch& batch) {
  constexpr int ranks = 4;
  constexpr std::int64_t size = 1000;
  const std::vector<float> m = batch.positive(rows, 0, 4),
                           exp_sums = batch.positive(ranks * rows, -2, 6);
  const std::vector<float> shifted = batch.positive(ranks * rows, 4, 11),
                           d = batch.positive(rows, -4, 4);
  std::vector<float> shifted_sums, loss(rows), total(rows), log_total(rows);
  std::vector<std::uint32_t> largest, bits;
  for (const float one : shifted) shifted_sums.push_back(-one);
  for (std::int64_t r = 0; r < rows; ++r) {
    largest.push_back(key_of(m[at(r)]));
    bits.push_back(std::bit_cast<std::uint32_t>(-d[at(r)]));
  }
  h::cross_entropy_loss(batch.exec, options, size, ranks, largest, targets_of(batch, 0, size),
                        exp_sums, shifted_sums, bits, loss, total, log_total);
  const double c = c_of(static_cast<double>(size));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto folded = [&](const std::vector<float>& of) {
      const auto rank = [&](std::int64_t k) { return given(of[at(k * rows + r)]); };
      return (rank(0) + rank(1)) + (rank(2) + rank(3));
    };
    const Bounded all = folded(exp_sums), l = log(all);
    const Bounded plain = l - given(-d[at(r)]);
    const Bounded w = l - folded(shifted_sums) / given(static_cast<float>(size));
    const Bounded whole = given(m[at(r)]) + l;
    const Bounded smoothed = rounded(1 - c) * plain + rounded(c) * w;
    batch.of("loss").look(smoothed + given(options.z_weight) * (whole * whole), loss[at(r)]);
    batch.of("total").look(all, total[at(r)]);
    batch.of("log_total").look(whole, log_total[at(r)]);
  }
}

void gradients(Batch& batch) {
  const std::vector<float> logits = batch.numbers(elements), m = batch.positive(rows, 2, 3);
  const std::vector<float> d_loss = batch.numbers(rows), total = batch.positive(rows, 0, 6);
  const std::vector<float> log_total = batch.numbers(rows, -1, 4);
  std::vector<float> d_logits(elements);
  std::vector<std::uint32_t> largest;
  for (const float one : m) largest.push_back(key_of(one));
  const std::vector<std::int32_t> targets = targets_of(batch, part.begin(), width);
  h::cross_entropy_backward(batch.exec, part, options, d_loss, logits, largest, targets, total,
                            log_total, d_logits);
  const double c = c_of(static_cast<double>(part.size));
  for (std::int64_t r = 0; r < rows; ++r) {
    const Bounded factor = given(2 * options.z_weight) * given(log_total[at(r)]);
    for (std::int64_t j = 0; j < width; ++j) {
      const Bounded p =
          exp(given(logits[at(r * width + j)]) - given(m[at(r)])) / given(total[at(r)]);
      const Bounded a = part.begin() + j == targets[at(r)] ? p - rounded(1 - c) : p;
      const Bounded all = (a - rounded(c / static_cast<double>(part.size))) + factor * p;
      batch.of("d_logits").look(given(d_loss[at(r)]) * all, d_logits[at(r * width + j)]);
    }
  }
}

}  // namespace

std::vector<Measured> measured_losses() {
  return {{"cross_entropy_sum", elements, sums},
          {"cross_entropy_loss", rows, losses},
          {"cross_entropy_backward", elements, gradients}};
}

}  // namespace zeroproof::errors
