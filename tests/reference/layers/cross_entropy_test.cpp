#include "reference/operations.hpp"
#include "tests/reference/layers/slopes_support.hpp"

namespace cross_entropy_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

struct Losses {
  std::vector<float> loss, total, log_total, d_logits;
  std::vector<std::uint32_t> largest;
};

/// The four steps on `ranks` ranks with neighbouring columns of the logits.
Losses cross_entropy(int ranks, const CrossEntropyOptions& options, std::int64_t size,
                     const std::vector<float>& logits, const std::vector<std::int32_t>& targets,
                     const std::vector<float>& d_loss) {
  const std::size_t rows = targets.size();
  std::vector<VocabularyPart> parts;
  std::vector<std::vector<float>> columns;
  for (int k = 0; k < ranks; ++k) {
    const VocabularyPart& part =
        parts.emplace_back(VocabularyPart{size, k * (8 / ranks), 8 / ranks});
    std::vector<float>& mine = columns.emplace_back();
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = logits.begin() + static_cast<std::int64_t>(r) * size;
      mine.insert(mine.end(), row + part.begin(), row + part.end());
    }
  }
  Losses result;
  result.largest.assign(rows, 0);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    std::vector<std::uint32_t> of_rank(rows);
    reference::cross_entropy_max({}, parts[k], columns[k], of_rank);
    for (std::size_t r = 0; r < rows; ++r)
      result.largest[r] = std::max(result.largest[r], of_rank[r]);
  }
  std::vector<float> exp_sums, shifted_sums;
  std::vector<std::uint32_t> target_bits(rows, 0);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    std::vector<float> exps(rows), shifted(rows);
    std::vector<std::uint32_t> mine(rows);
    reference::cross_entropy_sum({}, parts[k], columns[k], result.largest, targets, exps, shifted,
                                 mine);
    exp_sums.insert(exp_sums.end(), exps.begin(), exps.end());
    shifted_sums.insert(shifted_sums.end(), shifted.begin(), shifted.end());
    for (std::size_t r = 0; r < rows; ++r) target_bits[r] |= mine[r];
  }
  result.loss.resize(rows), result.total.resize(rows), result.log_total.resize(rows);
  reference::cross_entropy_loss({}, options, size, ranks, result.largest, targets, exp_sums,
                                shifted_sums, target_bits, result.loss, result.total,
                                result.log_total);
  result.d_logits.resize(logits.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    std::vector<float> mine(columns[k].size());
    reference::cross_entropy_backward({}, parts[k], options, d_loss, columns[k], result.largest,
                                      targets, result.total, result.log_total, mine);
    const auto width = static_cast<std::size_t>(parts[k].end() - parts[k].begin());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t j = 0; j < width; ++j) {
        result.d_logits[r * static_cast<std::size_t>(size) +
                        static_cast<std::size_t>(parts[k].begin()) + j] = mine[r * width + j];
      }
    }
  }
  return result;
}

constexpr double allowed =
    0x1p-19;  // of a gradient: a dozen roundings of 2^-24 and a difference's 2^-28

}  // namespace

TEST_CASE("cross_entropy: by hand, equal logits and one far above") {
  const std::vector<float> logits = {5, 5, 5, 5, 300, 0, 0, 0, 1, 2, 3, 4};
  const Losses even = cross_entropy(1, {}, 4, logits, {2, 1, -1}, {1, 2, 8});
  CHECK(bits(even.total) == bits(std::vector<float>{4, 1, even.total[2]}));
  CHECK(bits(even.loss) ==
        bits(std::vector<float>{std::log(4.0F), 300, 0}));  // the last position is ignored
  CHECK(bits(even.d_logits) ==
        bits(std::vector<float>{0.25F, 0.25F, -0.75F, 0.25F, 2, -2, 0, 0, 0, 0, 0, 0}));
  CHECK(bits(even.log_total[0]) == bits(5 + std::log(4.0F)));
}

TEST_CASE("cross_entropy: by hand, smoothing and z-loss") {
  // Two equal logits, smoothing 1/4: c = 1/4 * 2 / 1 = 1/2, keep 1/2, each column 1/4.
  const std::vector<float> logits = {0, 0};
  const Losses smooth = cross_entropy(1, {0.25, 0}, 2, logits, {0}, {1});
  const float l = std::log(2.0F);
  CHECK(bits(smooth.loss[0]) == bits(0.5F * l + 0.5F * l));
  CHECK(bits(smooth.d_logits) == bits(std::vector<float>{-0.25F, 0.25F}));
  const Losses with_z = cross_entropy(1, {0, 0.5F}, 2, logits, {0}, {1});
  CHECK(bits(with_z.loss[0]) == bits(l + 0.5F * (l * l)));
  CHECK(bits(with_z.d_logits) == bits(std::vector<float>{-0.5F + l * 0.5F, 0.5F + l * 0.5F}));
}

TEST_CASE("cross_entropy: the same bits for 1, 2, 4 and 8 ranks and any width") {
  for (const std::int64_t size : {1, 2, 7, 8, 9, 50, 257}) {
    CAPTURE(size);
    const std::vector<float> logits = random_values(6 * size, 1, 5),
                             d_loss = random_values(6, 2, 3);
    const auto last = static_cast<std::int32_t>(size - 1);
    const std::vector<std::int32_t> targets = {0, last, last / 2, -100, last + 1, last / 3};
    const CrossEntropyOptions options{size > 1 ? 0.1 : 0, 1e-3F};
    const Losses one = cross_entropy(1, options, size, logits, targets, d_loss);
    for (const int ranks : {2, 4, 8}) {
      const Losses many = cross_entropy(ranks, options, size, logits, targets, d_loss);
      CHECK(bits(many.loss) == bits(one.loss));
      CHECK(bits(many.d_logits) == bits(one.d_logits));
      CHECK(bits(many.total) == bits(one.total));
      CHECK(bits(many.log_total) == bits(one.log_total));
    }
    CHECK(one.loss[3] == 0);
    CHECK(one.loss[4] == 0);
  }
}

TEST_CASE("cross_entropy: the largest logit as an integer") {
  const std::vector<float> ordered = {-inf32,    -3e38F, -1,    -0x1p-149F, -0.0F, 0,
                                      0x1p-149F, 1,      3e38F, inf32,      nan32};
  std::uint32_t last = 0;
  for (const float x : ordered) {
    std::uint32_t key = 0;
    reference::cross_entropy_max({}, {1, 0, 8}, {&x, 1}, {&key, 1});
    CHECK(key > last);
    last = key;
  }
  CHECK(last == 0xFFFFFFFFU);
  std::uint32_t nothing = 5;
  reference::cross_entropy_max({}, {1, 0, 1}, {},
                               {&nothing, 1});  // one column is in the last block
  CHECK(nothing == 0);
}

TEST_CASE("slopes: cross_entropy with smoothing and z-loss equals differences") {
  constexpr std::size_t rows = 4, size = 11;
  const std::vector<float> logits = random_values(rows * size, 5, 2),
                           d_loss = random_values(rows, 6, 2);
  const std::vector<std::int32_t> targets = {3, 0, 10, -1};
  const CrossEntropyOptions options{0.2, 0.01F};
  const Losses at_once = cross_entropy(1, options, size, logits, targets, d_loss);
  const auto loss = [&](const Wide& at) {
    double sum = 0;
    for (std::size_t r = 0; r + 1 < rows; ++r) {
      double total = 0, mean = 0;
      for (std::size_t j = 0; j < size; ++j)
        total += std::exp(at[r * size + j]), mean += at[r * size + j] / size;
      const double z = std::log(total), c = options.label_smoothing * size / (size - 1);
      const double plain = z - at[r * size + static_cast<std::size_t>(targets[r])];
      sum +=
          double{d_loss[r]} * ((1 - c) * plain + c * (z - mean) + double{options.z_weight} * z * z);
    }
    return sum;
  };
  CHECK(worst_slope_error(loss, logits, at_once.d_logits) < allowed);
}

TEST_CASE("cross_entropy: values that are not finite; invalid parts and views are rejected") {
  const Losses odd = cross_entropy(2, {}, 2, {nan32, 1, inf32, 1, -inf32, 1}, {1, 1, 1}, {1, 1, 1});
  CHECK(std::isnan(odd.loss[0]));
  CHECK(std::isnan(odd.loss[1]));
  CHECK(bits(odd.loss[2]) == bits(0.0F));
  const std::vector<float> logits(8), row(1);
  std::vector<std::uint32_t> largest(1);
  std::vector<float> out(8), one(1);
  const std::vector<std::int32_t> target(1);
  for (const VocabularyPart& part :
       {VocabularyPart{0, 0, 8}, VocabularyPart{8, 1, 2}, VocabularyPart{8, 0, 3},
        VocabularyPart{8, 8, 1}, VocabularyPart{8, -1, 1}, VocabularyPart{9, 0, 8}}) {
    ZP_CHECK_INVALID(reference::cross_entropy_max({}, part, logits, largest));
  }
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{-0.1, 0}, CrossEntropyOptions{1, 0}, CrossEntropyOptions{nan64, 0},
        CrossEntropyOptions{0, -1}, CrossEntropyOptions{0, inf32}, CrossEntropyOptions{0, nan32}}) {
    ZP_CHECK_INVALID(reference::cross_entropy_backward({}, {8, 0, 8}, options, row, logits, largest,
                                                       target, row, row, out));
  }
  ZP_CHECK_INVALID(reference::cross_entropy_loss({}, {}, 8, 3, largest, target, row, row, largest,
                                                 one, one, one));
  ZP_CHECK_INVALID(reference::cross_entropy_loss({}, {0.1, 0}, 1, 1, largest, target, row, row,
                                                 largest, one, one, one));
  ZP_CHECK_INVALID(reference::cross_entropy_loss({}, {}, 8, 2, largest, target, row, row, largest,
                                                 one, one, one));
}

}  // namespace cross_entropy_test
