#include "verification/tools/plan/counts.hpp"

#include <array>

namespace zeroproof::verification {
namespace {

double parameters(const Plan& plan) { return static_cast<double>(plan.tp_numel); }
double sharing_ranks(const Plan& plan) {
  return static_cast<double>(plan.settings.grid.data_ranks() / plan.settings.instances);
}

}  // namespace

std::vector<Count> zero_paper_counts(const Plan& plan) {
  static constexpr std::array<const char*, 4> formulas = {
      "2 P + 2 P + 12 P", "2 P + 2 P + 12 P / d", "2 P + (2 + 12) P / d", "(2 + 2 + 12) P / d"};
  std::vector<Count> counts;
  for (const StagePlan& stage : plan.stages) {
    counts.push_back(
        {"stage " + std::to_string(stage.stage), formulas[stage.stage], stage.papers.total(), true,
         "16-bit parameters 2, 16-bit gradients 2, fp32 master 4, two fp32 moments 8",
         stage.stage == 3
             ? "Units gathered during their computation are additional [ZeRO:memory]."
             : "No message buffers, and no tree of fp32 nodes [ZeRO:memory], [ZeRO:nodes]."});
  }
  return counts;
}

std::vector<Count> deepspeed_counts(const Plan& plan) {
  const double p = parameters(plan);
  const double d = sharing_ranks(plan);
  const auto layer = static_cast<double>(plan.largest_unit);
  return {{"stage 2, now", "2 P + 18 P / d", 2 * p + 18 * p / d, true,
           "whole 16-bit parameters 2; divided 16-bit gradients 2, fp32 gradients 4, master 4, "
           "moments 8",
           "Both gradients are held; the paper has one of 16 bits, 2 P + 14 P / d [ZeRO:memory]."},
          {"stage 2, earlier", "4 P + 16 P / d", 4 * p + 16 * p / d, false,
           "whole 16-bit parameters 2, 16-bit gradients 2; divided fp32 gradients 4, master 4, "
           "moments 8",
           "A gradient that is whole on every rank is stage 1 (erratum 43)."},
          {"stage 3", "4 L + 18 P / d", 4 * layer + 18 * p / d, true,
           "of a layer 16-bit parameters 2, 16-bit gradients 2; divided 16-bit parameters 2, fp32 "
           "gradients "
           "4, master 4, moments 8",
           "L is the largest layer; the paper has a gradient of 16 bits, 16 P / d [ZeRO:memory]."}};
}

std::vector<Count> megatron_counts(const Plan& plan) {
  const double p = parameters(plan);
  const double d = sharing_ranks(plan);
  const std::string gaps =
      "Gaps and ends of buckets are additional [Megatron:memory], [Megatron:buckets].";
  const std::string five =
      "16-bit parameters 2, 16-bit gradients 2, fp32 gradients 4, master 4, moments 8";
  const std::string four = "16-bit parameters 2, fp32 gradients 4, master 4, moments 8";
  const std::string three = "fp32 parameters 4, fp32 gradients 4, moments 8";
  return {
      {"16-bit gradients", "20 P", 20 * p, true, five,
       "The gradient is there twice [Megatron:memory]."},
      {"16-bit gradients, distributed", "4 P + 16 P / d", 4 * p + 16 * p / d, true, five,
       "The fp32 copy of the gradient is of the shard alone. " + gaps},
      {"bf16, fp32 gradients", "18 P", 18 * p, true, four,
       "The default of mixed precision there [Megatron:memory]."},
      {"bf16, fp32 gradients, distributed", "6 P + 12 P / d", 6 * p + 12 * p / d, true, four,
       "Whole gradients stay on every rank, so this is stage 1. " + gaps},
      {"fp32", "16 P", 16 * p, true, three, "Parameters are their own master [Megatron:memory]."},
      {"fp32, distributed", "8 P + 8 P / d", 8 * p + 8 * p / d, true, three,
       "Parameters are updated where they are, so only the moments are divided. " + gaps}};
}

std::vector<Count> circulating_counts(const Plan& plan) {
  const double p = parameters(plan);
  const double d = sharing_ranks(plan);
  return {{"optimizer state (700 GB at 175B)", "4 P", 4 * p, false, "one fp32 value 4",
           "Adam has two moments; in fp32 they are 8 P, and mixed precision has a master too "
           "(erratum 42)."},
          {"optimizer state (1400 GB)", "8 P", 8 * p, true, "two fp32 moments 8",
           "All of it in fp32 training; mixed precision adds an fp32 master, 12 P (erratum 42)."},
          {"optimizer state (2100 GB)", "12 P", 12 * p, true, "fp32 master 4, two fp32 moments 8",
           "K = 12 of mixed precision [ZeRO:memory]."},
          {"parameters, \"sharded\" (350 GB)", "2 P", 2 * p, false, "16-bit parameters 2",
           "2 P is all of them; sharded (stage 3) it is 2 P / d (erratum 43)."},
          {"gradients, \"sharded\" (350 GB)", "2 P", 2 * p, false, "16-bit gradients 2",
           "2 P is all of them; sharded (stages 2 and 3) it is 2 P / d (erratum 43)."},
          {"a rank of \"ZeRO\"", "2 P + 2 P + 4 P / d", 4 * p + 4 * p / d, false,
           "whole 16-bit parameters 2, 16-bit gradients 2; divided one fp32 value 4",
           "The form is stage 1's, which has 12 P / d: nothing but the state is divided (errata "
           "42, 43)."},
          {"traffic, \"as data parallel\"", "4 P + 4 P", 8 * p, false,
           "fp32 gradients 4, and 4 again as sums",
           "Elements are equal, bytes are not: fp32 gradients and 16-bit parameters are 6 P "
           "(erratum 41, "
           "[ZeRO:volume])."}};
}

}  // namespace zeroproof::verification
