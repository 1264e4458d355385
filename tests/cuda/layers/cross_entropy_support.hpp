#pragma once
// Cross-entropy over a split vocabulary, for the implementations of the host and those of the
// device.

#include <algorithm>
#include <limits>

#include "common/contracts/cross_entropy.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct CrossEntropyImplementations {
  CrossEntropyMaxFn* max;
  CrossEntropySumFn* sum;
  CrossEntropyLossFn* loss;
  CrossEntropyBackwardFn* backward;
};

/// Combined results of all ranks for whole rows of logits.
struct EntropyResult {
  std::vector<float> loss, total, log_total, d_logits;
  std::vector<std::uint32_t> largest, target_bits;
};

inline EntropyResult cross_entropy_of(const CrossEntropyImplementations& implementations,
                                      const Exec& exec, const CrossEntropyOptions& options,
                                      std::int64_t size, int ranks, Span<const float> logits,
                                      Span<const std::int32_t> targets, Span<const float> d_loss) {
  const std::size_t rows = targets.size();
  const auto ranks_of = static_cast<std::size_t>(ranks);
  EntropyResult all{std::vector<float>(rows),         std::vector<float>(rows),
                    std::vector<float>(rows),         std::vector<float>(logits.size()),
                    std::vector<std::uint32_t>(rows), std::vector<std::uint32_t>(rows)};
  std::vector<VocabularyPart> parts;
  std::vector<std::vector<float>> own(ranks_of);
  for (int k = 0; k < ranks; ++k) {
    parts.push_back({size, k * 8 / ranks, 8 / ranks});
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = logits.begin() + static_cast<std::int64_t>(r) * size;
      own[k].insert(own[k].end(), row + parts.back().begin(), row + parts.back().end());
    }
  }
  std::vector<std::uint32_t> words(rows);
  for (std::size_t k = 0; k < ranks_of; ++k) {
    implementations.max(exec, parts[k], own[k], words);
    for (std::size_t r = 0; r < rows; ++r) all.largest[r] = std::max(all.largest[r], words[r]);
  }
  std::vector<float> exp_sums(rows * ranks_of), shifted_sums(rows * ranks_of);
  for (std::size_t k = 0; k < ranks_of; ++k) {
    implementations.sum(exec, parts[k], own[k], all.largest, targets,
                        {exp_sums.data() + k * rows, rows}, {shifted_sums.data() + k * rows, rows},
                        words);
    for (std::size_t r = 0; r < rows; ++r) all.target_bits[r] |= words[r];
  }
  implementations.loss(exec, options, size, ranks, all.largest, targets, exp_sums, shifted_sums,
                       all.target_bits, all.loss, all.total, all.log_total);
  for (std::size_t k = 0; k < ranks_of; ++k) {
    std::vector<float> grads(own[k].size());
    implementations.backward(exec, parts[k], options, d_loss, own[k], all.largest, targets,
                             all.total, all.log_total, grads);
    const std::int64_t width = parts[k].end() - parts[k].begin();
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      all.d_logits[at / width * size + parts[k].begin() + at % width] = grads[i];
    }
  }
  return all;
}

/// Every number of ranks has the bits of the reference on one.
inline void check_cross_entropy_size(const CrossEntropyImplementations& implementations,
                                     const Exec& exec, const CrossEntropyOptions& options,
                                     std::int64_t size, std::int64_t rows) {
  constexpr CrossEntropyImplementations expected{
      reference::cross_entropy_max, reference::cross_entropy_sum, reference::cross_entropy_loss,
      reference::cross_entropy_backward};
  auto logits = filled(rows * size, 0, 1, false);
  for (float& x : logits.span()) x *= 6.0F;
  const float rare[] = {HUGE_VALF, -HUGE_VALF, std::nanf(""), -0x1p127F, 0x1p127F};
  std::vector<std::int32_t> targets;
  const auto d_loss = filled(rows, 0, 2, false);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint32_t bits = device_test::hash(static_cast<std::uint64_t>(r), 3);
    if (r % 4 == 3) logits.span()[r * size + bits % size] = rare[bits / 16 % 5];
    targets.push_back(static_cast<std::int32_t>(bits / 7 % static_cast<std::uint32_t>(size + 2)) -
                      1);
  }
  if (rows > 1) targets[1] = std::numeric_limits<std::int32_t>::min();
  const EntropyResult one =
      cross_entropy_of(expected, {}, options, size, 1, logits.span(), targets, d_loss.span());
  for (const int ranks : {1, 2, 4, 8}) {
    const EntropyResult cut = cross_entropy_of(implementations, exec, options, size, ranks,
                                               logits.span(), targets, d_loss.span());
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](float x, float y) { return device_test::same(x, y); });
    };
    CAPTURE(ranks);
    CHECK(cut.largest == one.largest);
    CHECK(cut.target_bits == one.target_bits);
    CHECK(same(cut.loss, one.loss));
    CHECK(same(cut.total, one.total));
    CHECK(same(cut.log_total, one.log_total));
    CHECK(same(cut.d_logits, one.d_logits));
  }
}

inline void check_cross_entropy_sizes(const CrossEntropyImplementations& implementations,
                                      const Exec& exec) {
  for (const std::int64_t size : {1, 2, 7, 8, 9, 17, 100, 1003}) {
    CAPTURE(size);
    for (const std::int64_t rows : {0, 1, 5, 37}) {
      CAPTURE(rows);
      check_cross_entropy_size(implementations, exec, {}, size, rows);
      if (size < 2) continue;
      check_cross_entropy_size(implementations, exec, {0.1, 0.0F}, size, rows);
      check_cross_entropy_size(implementations, exec, {0.9, 1e-4F}, size, rows);
    }
  }
}

inline void check_cross_entropy_refused(const CrossEntropyImplementations& implementations,
                                        const Exec& exec) {
  std::vector<float> four(4), three(3), two(2);
  std::vector<std::uint32_t> words(2), word(1);
  std::vector<std::int32_t> targets(2), target(1);
  const VocabularyPart whole{2, 0, 8};
  CHECK_NOTHROW(implementations.max(exec, whole, four, words));
  for (const VocabularyPart& part :
       {VocabularyPart{0, 0, 8}, VocabularyPart{-2, 0, 8}, VocabularyPart{2, 0, 3},
        VocabularyPart{2, 0, 0}, VocabularyPart{2, 1, 2}, VocabularyPart{2, 8, 8},
        VocabularyPart{2, -4, 4}, VocabularyPart{2, 0, 16}}) {
    refused([&] { implementations.max(exec, part, four, words); });
    refused([&] { implementations.sum(exec, part, four, words, targets, two, two, words); });
    refused([&] {
      implementations.backward(exec, part, {}, two, four, words, targets, two, two, four);
    });
  }
  refused([&] { implementations.max(exec, whole, three, words); });
  CHECK_NOTHROW(implementations.sum(exec, whole, four, words, targets, two, two, words));
  refused([&] { implementations.sum(exec, whole, three, words, targets, two, two, words); });
  refused([&] { implementations.sum(exec, whole, four, words, target, two, two, words); });
  refused([&] { implementations.sum(exec, whole, four, words, targets, three, two, words); });
  refused([&] { implementations.sum(exec, whole, four, words, targets, two, three, words); });
  refused([&] { implementations.sum(exec, whole, four, words, targets, two, two, word); });
  const auto loss = [&](const CrossEntropyOptions& options, std::int64_t size, int ranks) {
    implementations.loss(exec, options, size, ranks, words, targets, two, two, words, two, two,
                         two);
  };
  CHECK_NOTHROW(loss({}, 1, 1));
  refused([&] { loss({}, 0, 1); });
  refused([&] { loss({}, 2, 2); });  // sums of two ranks are twice as long
  refused([&] { loss({}, 2, 3); });
  refused([&] { loss({0.1, 0.0F}, 1, 1); });
  for (const double smoothing : {-0.1, 1.0, std::nan("")}) {
    refused([&] { loss({smoothing, 0.0F}, 2, 1); });
    refused([&] {
      implementations.backward(exec, whole, {smoothing, 0.0F}, two, four, words, targets, two, two,
                               four);
    });
  }
  for (const float weight : {-1.0F, HUGE_VALF, std::nanf("")})
    refused([&] { loss({0, weight}, 2, 1); });
  refused(
      [&] { implementations.loss(exec, {}, 2, 1, words, target, two, two, words, two, two, two); });
  refused(
      [&] { implementations.loss(exec, {}, 2, 1, words, targets, two, two, word, two, two, two); });
  refused([&] {
    implementations.loss(exec, {}, 2, 1, words, targets, two, two, words, three, two, two);
  });
  refused([&] {
    implementations.loss(exec, {}, 2, 1, words, targets, two, two, words, two, three, two);
  });
  refused([&] {
    implementations.loss(exec, {}, 2, 1, words, targets, two, two, words, two, two, three);
  });
  refused([&] {
    implementations.loss(exec, {}, 2, 1, words, targets, two, three, words, two, two, two);
  });
  CHECK_NOTHROW(
      implementations.backward(exec, whole, {}, two, four, words, targets, two, two, four));
  refused([&] {
    implementations.backward(exec, whole, {}, three, four, words, targets, two, two, four);
  });
  refused([&] {
    implementations.backward(exec, whole, {}, two, three, words, targets, two, two, four);
  });
  refused(
      [&] { implementations.backward(exec, whole, {}, two, four, words, target, two, two, four); });
  refused([&] {
    implementations.backward(exec, whole, {}, two, four, words, targets, three, two, four);
  });
  refused([&] {
    implementations.backward(exec, whole, {}, two, four, words, targets, two, three, four);
  });
  refused([&] {
    implementations.backward(exec, whole, {}, two, four, words, targets, two, two, three);
  });
}

}  // namespace zeroproof::tests
