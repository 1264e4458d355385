#include <array>
#include <bit>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/layers/row_reductions.hpp"
#include "reference/layers/scalar_math.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

constexpr std::uint32_t nan_key = 0xFFFFFFFF;
constexpr std::uint32_t sign_bit = 0x80000000;

/// Maps floats to unsigned integers of the same order, so that ranks take a maximum without
/// comparing floats (R10).
std::uint32_t key_of(float x) {
  if (x != x) return nan_key;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & sign_bit) == 0 ? bits + sign_bit : ~bits;
}

float number_of(std::uint32_t key) {
  if (key == nan_key) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>((key & sign_bit) != 0 ? key - sign_bit : ~key);
}

bool one_two_four_eight(int count) { return count == 1 || count == 2 || count == 4 || count == 8; }

/// Width of the part's rows.
std::int64_t check_part(const char* operation, const VocabularyPart& p, std::size_t rows,
                        std::size_t logits) {
  ZP_CHECK(p.size >= 1 && one_two_four_eight(p.count) && p.first >= 0 && p.first % p.count == 0 &&
               p.first + p.count <= 8,
           ErrorCode::invalid_argument,
           std::string(operation) + ": got blocks " + std::to_string(p.first) + " to " +
               std::to_string(p.first + p.count) + " of " + std::to_string(p.size) + " columns",
           "a rank has 1, 2, 4 or 8 neighbouring blocks of 8 (R18)",
           "split the vocabulary between blocks");
  const std::int64_t width = p.end() - p.begin();
  check_elements(operation, "logits", logits, static_cast<std::int64_t>(rows) * width);
  return width;
}

/// [Fusion:smoothing]: c of the contract, and its shares of the target and of every column.
struct Smoothing {
  double c = 0;
  float keep = 1, smooth = 0, each = 0;

  Smoothing(const char* operation, const CrossEntropyOptions& options, std::int64_t size) {
    const double smoothing = options.label_smoothing;
    ZP_CHECK(smoothing >= 0 && smoothing < 1 && (smoothing == 0 || size >= 2),
             ErrorCode::invalid_argument,
             std::string(operation) + ": label_smoothing is " + text(smoothing) + " over " +
                 std::to_string(size) + " columns",
             "it is divided among the other columns",
             "pass a number from 0 to below 1, and 0 for one column");
    ZP_CHECK(options.z_weight >= 0 && options.z_weight <= std::numeric_limits<float>::max(),
             ErrorCode::invalid_argument,
             std::string(operation) + ": z_weight is " + text(options.z_weight),
             "it adds to the loss", "pass a finite number of at least 0");
    if (smoothing == 0) return;
    const auto columns = static_cast<double>(size);
    c = (smoothing * columns) / (columns - 1);
    smooth = static_cast<float>(c);
    keep = static_cast<float>(1 - c);
    each = static_cast<float>(c / columns);
  }
};

bool counts(std::int32_t target, std::int64_t size) { return target >= 0 && target < size; }

/// The parts of one row in rank order, folded by the tree of R18.
float over_ranks(Span<const float> parts, int ranks, std::size_t rows, std::size_t r) {
  std::array<float, 8> sums{};
  for (int k = 0; k < ranks; ++k) {
    sums[k] = parts[static_cast<std::size_t>(k) * rows + r];
  }
  return fold_blocks(sums, ranks);
}

/// As an integer for other ranks: the same one for all NaNs (R9).
std::uint32_t bits_of(float value) {
  return value != value ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
}

}  // namespace

// [Fusion:cross_entropy]

void cross_entropy_max(const Exec&, const VocabularyPart& part, Span<const float> logits,
                       Span<std::uint32_t> largest) {
  const std::int64_t width = check_part("cross_entropy_max", part, largest.size(), logits.size());
  for (std::size_t r = 0; r < largest.size(); ++r) {
    largest[r] = 0;
    for (const float x : reference::part(logits, static_cast<std::int64_t>(r) * width, width)) {
      largest[r] = std::max(largest[r], key_of(x));
    }
  }
}

void cross_entropy_sum(const Exec&, const VocabularyPart& part, Span<const float> logits,
                       Span<const std::uint32_t> largest, Span<const std::int32_t> targets,
                       Span<float> exp_sum, Span<float> shifted_sum,
                       Span<std::uint32_t> target_bits) {
  const std::int64_t width = check_part("cross_entropy_sum", part, largest.size(), logits.size());
  const auto rows = static_cast<std::int64_t>(largest.size());
  check_elements("cross_entropy_sum", "targets", targets.size(), rows);
  check_elements("cross_entropy_sum", "exp_sum", exp_sum.size(), rows);
  check_elements("cross_entropy_sum", "shifted_sum", shifted_sum.size(), rows);
  check_elements("cross_entropy_sum", "target_bits", target_bits.size(), rows);
  for (std::size_t r = 0; r < largest.size(); ++r) {
    const Row d = row_of(logits, static_cast<std::int64_t>(r), width) - number_of(largest[r]);
    const Row e = d.unaryExpr(&scalar_math::exp_f32);
    const auto sum = [&](const Row& values) {
      return sum_of_blocks(part.size, part.first, part.count,
                           [&](std::int64_t j) { return values[j - part.begin()]; });
    };
    exp_sum[r] = sum(e);
    shifted_sum[r] = sum(d);
    const std::int64_t target = targets[r];
    const bool here = target >= part.begin() && target < part.end();
    target_bits[r] = here ? bits_of(d[target - part.begin()]) : 0;
  }
}

void cross_entropy_loss(const Exec&, const CrossEntropyOptions& options, std::int64_t size,
                        int ranks, Span<const std::uint32_t> largest,
                        Span<const std::int32_t> targets, Span<const float> exp_sums,
                        Span<const float> shifted_sums, Span<const std::uint32_t> target_bits,
                        Span<float> loss, Span<float> total, Span<float> log_total) {
  ZP_CHECK(size >= 1 && one_two_four_eight(ranks), ErrorCode::invalid_argument,
           "cross_entropy_loss: " + std::to_string(size) + " columns on " + std::to_string(ranks) +
               " ranks",
           "a rank has 1, 2, 4 or 8 neighbouring blocks of 8 (R18)",
           "split the vocabulary between blocks");
  const Smoothing smoothing("cross_entropy_loss", options, size);
  const auto rows = static_cast<std::int64_t>(largest.size());
  check_elements("cross_entropy_loss", "targets", targets.size(), rows);
  check_elements("cross_entropy_loss", "exp_sums", exp_sums.size(), ranks * rows);
  check_elements("cross_entropy_loss", "shifted_sums", shifted_sums.size(), ranks * rows);
  check_elements("cross_entropy_loss", "target_bits", target_bits.size(), rows);
  check_elements("cross_entropy_loss", "loss", loss.size(), rows);
  check_elements("cross_entropy_loss", "total", total.size(), rows);
  check_elements("cross_entropy_loss", "log_total", log_total.size(), rows);
  for (std::size_t r = 0; r < largest.size(); ++r) {
    total[r] = over_ranks(exp_sums, ranks, largest.size(), r);
    const float l = scalar_math::log_f32(total[r]);
    const float d = std::bit_cast<float>(target_bits[r]);
    float value = l - d;
    if (options.label_smoothing > 0) {
      const float q = over_ranks(shifted_sums, ranks, largest.size(), r);
      const float a = q / static_cast<float>(size);
      const float w = l - a;
      const float f = smoothing.keep * value;
      const float g = smoothing.smooth * w;
      value = f + g;
    }
    log_total[r] = number_of(largest[r]) + l;
    if (options.z_weight > 0) {  // [Fusion:zloss]
      const float h = log_total[r] * log_total[r];
      const float z = options.z_weight * h;
      value = value + z;
    }
    loss[r] = counts(targets[r], size) ? value : 0.0F;
  }
}

void cross_entropy_backward(const Exec&, const VocabularyPart& part,
                            const CrossEntropyOptions& options, Span<const float> d_loss,
                            Span<const float> logits, Span<const std::uint32_t> largest,
                            Span<const std::int32_t> targets, Span<const float> total,
                            Span<const float> log_total, Span<float> d_logits) {
  const std::int64_t width =
      check_part("cross_entropy_backward", part, largest.size(), logits.size());
  const Smoothing smoothing("cross_entropy_backward", options, part.size);
  const auto rows = static_cast<std::int64_t>(largest.size());
  check_elements("cross_entropy_backward", "d_loss", d_loss.size(), rows);
  check_elements("cross_entropy_backward", "targets", targets.size(), rows);
  check_elements("cross_entropy_backward", "total", total.size(), rows);
  check_elements("cross_entropy_backward", "log_total", log_total.size(), rows);
  check_same_numel("cross_entropy_backward", "logits", logits.size(), "d_logits", d_logits.size());
  for (std::size_t r = 0; r < largest.size(); ++r) {
    auto out = row_of(d_logits, static_cast<std::int64_t>(r), width);
    if (!counts(targets[r], part.size)) {
      out = 0.0F;
      continue;
    }
    const Row d = row_of(logits, static_cast<std::int64_t>(r), width) - number_of(largest[r]);
    const Row e = d.unaryExpr(&scalar_math::exp_f32);
    const Row p = e / total[r];
    Row a = p;
    const std::int64_t target = targets[r] - part.begin();
    if (target >= 0 && target < width) a[target] = p[target] - smoothing.keep;
    if (options.label_smoothing > 0) a -= smoothing.each;
    if (options.z_weight > 0) {  // [Fusion:zloss]
      const float k = 2 * options.z_weight;
      const float factor = k * log_total[r];
      const Row t = factor * p;
      a += t;
    }
    out = d_loss[r] * a;
  }
}

}  // namespace zeroproof::reference
