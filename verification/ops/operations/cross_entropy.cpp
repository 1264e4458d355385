// Cross-entropy over a vocabulary sharded over ranks: each of its four steps separately.

#include "common/contracts/cross_entropy.hpp"

#include <bit>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"
#include "verification/ops/row_shapes.hpp"

namespace zeroproof::verification {
namespace {

struct EntropyVariant {
  const char* name;
  VocabularyPart part;
  CrossEntropyOptions options;
};
constexpr EntropyVariant entropy_variants[] = {
    {"one column", {1, 0, 8}, {0, 0}},           {"whole rows", {7, 0, 8}, {0.1, 0}},
    {"wide rows", {24, 0, 8}, {0, 0}},           {"first half", {5, 0, 4}, {0, 1e-4F}},
    {"third quarter", {50, 4, 2}, {0.1, 1e-4F}}, {"last eighth", {101, 7, 1}, {0.3, 0.5F}}};

/// Columns of the widest row. An element of a call is a row.
constexpr std::int64_t most_columns = 24;

struct EntropyCall {
  VocabularyPart part;
  CrossEntropyOptions options;
  std::int64_t width, rows, logits;

  explicit EntropyCall(const OpCall& call)
      : part(entropy_variants[call.variant()].part),
        options(entropy_variants[call.variant()].options),
        width(part.end() - part.begin()),
        rows(call.numel()),
        logits(rows * width) {}
};

/// Targets from words: most of them columns of the vocabulary, near the part's often enough, some no column.
std::vector<std::int32_t> targets_of(const OpCall& call, std::size_t operand,
                                     const EntropyCall& c) {
  std::vector<std::int32_t> targets;
  for (const std::uint32_t word : call.in<std::uint32_t>(operand)) {
    const auto in_all =
        static_cast<std::int64_t>((word >> 8) % static_cast<std::uint64_t>(c.part.size + 2)) - 1;
    const auto in_part = c.part.begin() + static_cast<std::int64_t>(
                                              (word >> 8) % static_cast<std::uint64_t>(c.width));
    targets.push_back(static_cast<std::int32_t>(word % 2 == 0 ? in_part : in_all));
  }
  return targets;
}

/// The largest logit of a row as ranks would have it: that of the part, and in some rows a larger one.
void draw_largest(OpCall& call, std::size_t logits, std::size_t largest) {
  const EntropyCall c(call);
  const Span<std::uint32_t> keys = call.get<std::uint32_t>(largest);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    std::uint32_t key = 0;
    for (std::int64_t j = 0; j < c.width; ++j) {
      const auto bits = std::bit_cast<std::uint32_t>(call.in<float>(logits)[r * c.width + j]);
      const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
      const std::uint32_t of_x = is_nan              ? 0xFFFFFFFFU
                                 : (bits >> 31) == 0 ? bits + 0x80000000U
                                                     : 0xFFFFFFFFU - bits;
      key = std::max(key, of_x);
    }
    keys[r] = key < 0xFF000000U && r % 3 == 1 ? key + 0x00400000U : key;
  }
}

OpFunction run_max(CrossEntropyMaxFn* implementation) {
  return [implementation](OpCall& call) {
    const EntropyCall c(call);
    implementation(call.exec, c.part, used(call.in<float>(0), c.logits),
                   call.get<std::uint32_t>(1));
  };
}

OpFunction run_sum(CrossEntropySumFn* implementation) {
  return [implementation](OpCall& call) {
    const EntropyCall c(call);
    implementation(call.exec, c.part, used(call.in<float>(0), c.logits), call.in<std::uint32_t>(1),
                   targets_of(call, 2, c), call.get<float>(3), call.get<float>(4),
                   call.get<std::uint32_t>(5));
  };
}

/// Ranks of a loss, by variant.
constexpr int loss_ranks[] = {1, 2, 4, 8, 2, 1};

OpFunction run_loss(CrossEntropyLossFn* implementation) {
  return [implementation](OpCall& call) {
    const int ranks = loss_ranks[call.variant()];
    const CrossEntropyOptions& options = entropy_variants[call.variant()].options;
    constexpr std::int64_t size = 1000;
    std::vector<std::int32_t> targets;
    for (const std::uint32_t word : call.in<std::uint32_t>(1)) {
      targets.push_back(static_cast<std::int32_t>(word % (size + 50)));
    }
    implementation(call.exec, options, size, ranks, call.in<std::uint32_t>(0), targets,
                   used(call.in<float>(2), ranks * call.numel()),
                   used(call.in<float>(3), ranks * call.numel()), call.in<std::uint32_t>(4),
                   call.get<float>(5), call.get<float>(6), call.get<float>(7));
  };
}

OpFunction run_entropy_backward(CrossEntropyBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const EntropyCall c(call);
    implementation(call.exec, c.part, c.options, call.in<float>(0),
                   used(call.in<float>(1), c.logits), call.in<std::uint32_t>(2),
                   targets_of(call, 3, c), call.in<float>(4), call.in<float>(5),
                   used(call.get<float>(6), c.logits));
  };
}

Op entropy_op(const char* name, const char* type, std::vector<Operand> operands) {
  Op op;
  op.name = name;
  op.contract = "cross_entropy.hpp";
  op.type = type;
  op.exactness = Exactness::ordered;
  for (const EntropyVariant& variant : entropy_variants) op.variants.emplace_back(variant.name);
  op.operands = std::move(operands);
  op.fills = number_fills();
  op.largest = 4099;
  return op;
}

}  // namespace

OpFunction calls_of_cross_entropy_sum(CrossEntropySumFn* implementation) {
  return run_sum(implementation);
}
OpFunction calls_of_cross_entropy_loss(CrossEntropyLossFn* implementation) {
  return run_loss(implementation);
}
OpFunction calls_of_cross_entropy_backward(CrossEntropyBackwardFn* implementation) {
  return run_entropy_backward(implementation);
}

std::vector<Op> cross_entropy_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  const auto words = [](const char* name, Content content) {
    return input(name, content, DType::u32);
  };
  const Operand logits = per_element(input("logits"), most_columns);
  const Operand targets = words("targets", Content::value),
                largest = words("largest", Content::given);

  Op max =
      entropy_op("cross_entropy_max", "CrossEntropyMaxFn", {logits, output("largest", DType::u32)});
  max.exactness = Exactness::integer;
  max.reference = run_max(r::cross_entropy_max);
  max.host = run_max(h::cross_entropy_max);
  max.device = run_max(on_device<d::cross_entropy_max>);

  Op sum = entropy_op("cross_entropy_sum", "CrossEntropySumFn",
                      {logits, largest, targets, output("exp_sum"), output("shifted_sum"),
                       output("target_bits", DType::u32)});
  sum.generate = [](OpCall& call) { draw_largest(call, 0, 1); };
  sum.reference = run_sum(r::cross_entropy_sum);
  sum.host = run_sum(h::cross_entropy_sum);
  sum.device = run_sum(on_device<d::cross_entropy_sum>);

  Op loss = entropy_op("cross_entropy_loss", "CrossEntropyLossFn",
                       {words("largest", Content::value), targets,
                        per_element(input("exp_sums", Content::second_moment), 8),
                        per_element(input("shifted_sums"), 8), words("target_bits", Content::value),
                        output("loss"), output("total"), output("log_total")});
  loss.variants = {"one rank",       "two ranks, smoothed", "four ranks",
                   "eight ranks, z", "two ranks, both",     "one rank, both"};
  loss.reference = run_loss(r::cross_entropy_loss);
  loss.host = run_loss(h::cross_entropy_loss);
  loss.device = run_loss(on_device<d::cross_entropy_loss>);

  Op backward =
      entropy_op("cross_entropy_backward", "CrossEntropyBackwardFn",
                 {input("d_loss"), logits, largest, targets, input("total", Content::second_moment),
                  input("log_total"), per_element(output("d_logits"), most_columns)});
  backward.exactness = Exactness::bitwise;
  backward.generate = [](OpCall& call) { draw_largest(call, 1, 2); };
  backward.reference = run_entropy_backward(r::cross_entropy_backward);
  backward.host = run_entropy_backward(h::cross_entropy_backward);
  backward.device = run_entropy_backward(on_device<d::cross_entropy_backward>);
  return {max, sum, loss, backward};
}

}  // namespace zeroproof::verification
