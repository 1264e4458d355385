#include "cuda/device/kernels/layers/elementary_element.cuh"
#include "cuda/device/kernels/layers/ordered_key.cuh"
#include "cuda/device/kernels/layers/row_threads.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/cross_entropy_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

using host::LossRule;
using host::VocabularyColumns;

struct LargestLogit {
  const float* logits;
  std::uint32_t* largest;
  std::int64_t width;

  ZP_DEVICE void row(const RowThread& thread) const {
    const float* const in = logits + thread.row * width;
    std::uint32_t key = 0;
    thread.elements([&](std::int64_t j) {
      const std::uint32_t own = ordered_key(in[j]);
      key = own > key ? own : key;
    });
    const std::uint32_t most = thread.largest(key);
    if (thread.here && thread.lane == 0) largest[thread.row] = most;
  }
};

struct RowSums {
  VocabularyColumns part;
  const float* logits;
  const std::uint32_t* largest;
  const std::int32_t* targets;
  float* exp_sum;
  float* shifted_sum;
  std::uint32_t* target_bits;

  ZP_DEVICE std::int64_t block_begin(int block) const {
    return part.size * (part.first + block) / 8 - part.begin;
  }

  ZP_DEVICE void row(const RowThread& thread) const {
    const float* const in = logits + thread.row * (part.end - part.begin);
    const float m = float_of_key(largest[thread.row]);
    // Blocks of the whole vocabulary; a thread whose block is outside the part adds nothing.
    const bool adds = thread.here && thread.lane < part.count;
    const std::int64_t begin = adds ? block_begin(thread.lane) : 0;
    const std::int64_t end = adds ? block_begin(thread.lane + 1) : 0;
    const float shifted =
        thread.sum(begin, end, part.count, [&](std::int64_t j) { return in[j] - m; });
    const float exps = thread.sum(begin, end, part.count,
                                  [&](std::int64_t j) { return elementary_exp_of(in[j] - m); });
    if (!thread.here || thread.lane != 0) return;  // no barrier follows
    shifted_sum[thread.row] = shifted;
    exp_sum[thread.row] = exps;
    const std::int64_t target = targets[thread.row];
    std::uint32_t bits = 0;
    if (target >= part.begin && target < part.end) {
      bits = bits_of(in[target - part.begin] - m);
      if ((bits & 0x7FFFFFFFU) > 0x7F800000U) bits = 0x7FFFFFFFU;  // one NaN (R9)
    }
    target_bits[thread.row] = bits;
  }
};

struct RowLoss {
  LossRule rule;
  int ranks;
  float width;
  std::int64_t rows;
  const std::uint32_t* largest;
  const std::int32_t* targets;
  const float* exp_sums;
  const float* shifted_sums;
  const std::uint32_t* target_bits;
  float* loss;
  float* total;
  float* log_total;

  ZP_DEVICE float over_ranks(const float* sums, std::int64_t r) const {
    float parts[8];
    for (int k = 0; k < 8; ++k) parts[k] = k < ranks ? sums[k * rows + r] : 0.0F;
    return fold_blocks(parts, ranks);
  }

  ZP_DEVICE void one(std::int64_t r) const {
    const float all = over_ranks(exp_sums, r);
    const float l = elementary_log_of(all);
    float value = l - float_of(target_bits[r]);
    if (rule.smoothed) {
      const float a = over_ranks(shifted_sums, r) / width;
      const float w = l - a;
      const float f = rule.keep * value;
      const float g = rule.smooth * w;
      value = f + g;
    }
    const float log_sum = float_of_key(largest[r]) + l;
    if (rule.z_weight > 0.0F) {
      const float h = log_sum * log_sum;
      const float z = rule.z_weight * h;
      value = value + z;
    }
    total[r] = all;
    log_total[r] = log_sum;
    loss[r] = targets[r] >= 0 && targets[r] < rule.size ? value : 0.0F;
  }
};

ZP_KERNEL loss_kernel(RowLoss rows_of) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t r = thread; r < rows_of.rows; r += stride) rows_of.one(r);
}

struct LogitGrads {
  LossRule rule;
  VocabularyColumns part;
  const float* d_loss;
  const float* logits;
  const std::uint32_t* largest;
  const std::int32_t* targets;
  const float* total;
  const float* log_total;
  float* d_logits;

  ZP_DEVICE void row(const RowThread& thread) const {
    const std::int64_t r = thread.row, begin = r * (part.end - part.begin);
    const std::int64_t target = targets[r];
    const bool counts = target >= 0 && target < rule.size;
    const float m = float_of_key(largest[r]);
    const float k = 2.0F * rule.z_weight;
    const float z = k * log_total[r];
    thread.elements([&](std::int64_t j) {
      if (!counts) {
        d_logits[begin + j] = 0.0F;
        return;
      }
      const float p = elementary_exp_of(logits[begin + j] - m) / total[r];
      float a = part.begin + j == target ? p - rule.keep : p;
      if (rule.smoothed) a = a - rule.spread;
      if (rule.z_weight > 0.0F) {
        const float t = z * p;
        a = a + t;
      }
      d_logits[begin + j] = d_loss[r] * a;
    });
  }
};

}  // namespace

void cross_entropy_max(const Exec&, const VocabularyPart& part, Span<const float> logits,
                       Span<std::uint32_t> largest) {
  const std::int64_t rows = numel(largest);
  const VocabularyColumns columns =
      host::check_part_of("cross_entropy_max", part, rows, {{"logits", logits.size()}}, {});
  const std::int64_t width = columns.end - columns.begin;
  run_rows(LargestLogit{logits.data(), largest.data(), width}, rows, width);
}

void cross_entropy_sum(const Exec&, const VocabularyPart& part, Span<const float> logits,
                       Span<const std::uint32_t> largest, Span<const std::int32_t> targets,
                       Span<float> exp_sum, Span<float> shifted_sum,
                       Span<std::uint32_t> target_bits) {
  const std::int64_t rows = numel(largest);
  const VocabularyColumns columns =
      host::check_part_of("cross_entropy_sum", part, rows, {{"logits", logits.size()}},
                          {{"targets", targets.size()},
                           {"exp_sum", exp_sum.size()},
                           {"shifted_sum", shifted_sum.size()},
                           {"target_bits", target_bits.size()}});
  run_rows(RowSums{columns, logits.data(), largest.data(), targets.data(), exp_sum.data(),
                   shifted_sum.data(), target_bits.data()},
           rows, columns.end - columns.begin);
}

void cross_entropy_loss(const Exec&, const CrossEntropyOptions& options, std::int64_t size,
                        int ranks, Span<const std::uint32_t> largest,
                        Span<const std::int32_t> targets, Span<const float> exp_sums,
                        Span<const float> shifted_sums, Span<const std::uint32_t> target_bits,
                        Span<float> loss, Span<float> total, Span<float> log_total) {
  const std::int64_t rows = numel(largest);
  const LossRule rule =
      host::check_loss(options, size, ranks, rows,
                       {{"exp_sums", exp_sums.size()}, {"shifted_sums", shifted_sums.size()}},
                       {{"targets", targets.size()},
                        {"target_bits", target_bits.size()},
                        {"loss", loss.size()},
                        {"total", total.size()},
                        {"log_total", log_total.size()}});
  if (rows == 0) return;
  const RowLoss rows_of{rule,
                        ranks,
                        static_cast<float>(size),
                        rows,
                        largest.data(),
                        targets.data(),
                        exp_sums.data(),
                        shifted_sums.data(),
                        target_bits.data(),
                        loss.data(),
                        total.data(),
                        log_total.data()};
  launch(loss_kernel, grid_blocks(rows), block_threads, rows_of);
}

void cross_entropy_backward(const Exec&, const VocabularyPart& part,
                            const CrossEntropyOptions& options, Span<const float> d_loss,
                            Span<const float> logits, Span<const std::uint32_t> largest,
                            Span<const std::int32_t> targets, Span<const float> total,
                            Span<const float> log_total, Span<float> d_logits) {
  constexpr const char* op = "cross_entropy_backward";
  const std::int64_t rows = numel(largest);
  const VocabularyColumns columns = host::check_part_of(
      op, part, rows, {{"logits", logits.size()}, {"d_logits", d_logits.size()}},
      {{"d_loss", d_loss.size()},
       {"targets", targets.size()},
       {"total", total.size()},
       {"log_total", log_total.size()}});
  const LossRule rule = host::loss_rule(op, options, part.size);
  run_rows(LogitGrads{rule, columns, d_loss.data(), logits.data(), largest.data(), targets.data(),
                      total.data(), log_total.data(), d_logits.data()},
           rows, columns.end - columns.begin);
}

}  // namespace zeroproof::cuda::device
