#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/layers/cross_entropy_checks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {

void cross_entropy_max(const Exec& exec, const VocabularyPart& part, Span<const float> logits,
                       Span<std::uint32_t> largest) {
  const std::int64_t rows = numel(largest);
  const VocabularyColumns columns =
      check_part_of("cross_entropy_max", part, rows, {{"logits", logits.size()}}, {});
  const std::int64_t width = columns.end - columns.begin;
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, width, [&](std::int64_t begin, std::int64_t end) {
    kernels.cross_entropy_max(width, end - begin, logits.data() + begin * width,
                              largest.data() + begin);
  });
}

void cross_entropy_sum(const Exec& exec, const VocabularyPart& part, Span<const float> logits,
                       Span<const std::uint32_t> largest, Span<const std::int32_t> targets,
                       Span<float> exp_sum, Span<float> shifted_sum,
                       Span<std::uint32_t> target_bits) {
  const std::int64_t rows = numel(largest);
  const VocabularyColumns columns =
      check_part_of("cross_entropy_sum", part, rows, {{"logits", logits.size()}},
                    {{"targets", targets.size()},
                     {"exp_sum", exp_sum.size()},
                     {"shifted_sum", shifted_sum.size()},
                     {"target_bits", target_bits.size()}});
  const std::int64_t width = columns.end - columns.begin;
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, width, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> exps(width);
    kernels.cross_entropy_sum(columns, end - begin, logits.data() + begin * width,
                              largest.data() + begin, targets.data() + begin,
                              exp_sum.data() + begin, shifted_sum.data() + begin,
                              target_bits.data() + begin, exps.data());
  });
}

void cross_entropy_loss(const Exec& exec, const CrossEntropyOptions& options, std::int64_t size,
                        int ranks, Span<const std::uint32_t> largest,
                        Span<const std::int32_t> targets, Span<const float> exp_sums,
                        Span<const float> shifted_sums, Span<const std::uint32_t> target_bits,
                        Span<float> loss, Span<float> total, Span<float> log_total) {
  const std::int64_t rows = numel(largest);
  const LossRule rule =
      check_loss(options, size, ranks, rows,
                 {{"exp_sums", exp_sums.size()}, {"shifted_sums", shifted_sums.size()}},
                 {{"targets", targets.size()},
                  {"target_bits", target_bits.size()},
                  {"loss", loss.size()},
                  {"total", total.size()},
                  {"log_total", log_total.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, 16, [&](std::int64_t begin, std::int64_t end) {
    kernels.cross_entropy_loss(rule, ranks, rows, end - begin, largest.data() + begin,
                               targets.data() + begin, exp_sums.data() + begin,
                               shifted_sums.data() + begin, target_bits.data() + begin,
                               loss.data() + begin, total.data() + begin, log_total.data() + begin);
  });
}

void cross_entropy_backward(const Exec& exec, const VocabularyPart& part,
                            const CrossEntropyOptions& options, Span<const float> d_loss,
                            Span<const float> logits, Span<const std::uint32_t> largest,
                            Span<const std::int32_t> targets, Span<const float> total,
                            Span<const float> log_total, Span<float> d_logits) {
  constexpr const char* op = "cross_entropy_backward";
  const std::int64_t rows = numel(largest);
  const VocabularyColumns columns =
      check_part_of(op, part, rows, {{"logits", logits.size()}, {"d_logits", d_logits.size()}},
                    {{"d_loss", d_loss.size()},
                     {"targets", targets.size()},
                     {"total", total.size()},
                     {"log_total", log_total.size()}});
  const std::int64_t width = columns.end - columns.begin;
  const LossRule rule = loss_rule(op, options, part.size);
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, width, [&](std::int64_t begin, std::int64_t end) {
    kernels.cross_entropy_backward(rule, columns, end - begin, d_loss.data() + begin,
                                   logits.data() + begin * width, largest.data() + begin,
                                   targets.data() + begin, total.data() + begin,
                                   log_total.data() + begin, d_logits.data() + begin * width);
  });
}

}  // namespace zeroproof::cuda::host
