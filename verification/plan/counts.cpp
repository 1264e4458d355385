#include "verification/plan/counts.hpp"

#include <array>

namespace zeroproof::verification {
namespace {

double parameters(const Plan& plan) { return static_cast<double>(plan.tp_numel); }
double sharing_ranks(const Plan& plan) {
  return static_cast<double>(plan.settings.grid.data_ranks() / plan.settings.instances);
}

}  // namespace

std::vector<Count> zero_paper_counts(const Plan& plan) {
  static constexpr std::array<const char*, 4> formulas = {"2 P + 2 P + 12 P", "2 P + 2 P + 12 P / d",
                                                          "2 P + (2 + 12) P / d", "(2 + 2 + 12) P / d"};
  std::vector<Count> counts;
  for (const StagePlan& stage : plan.stages) {
    counts.push_back(
        {"stage " + std::to_string(stage.stage), formulas[static_cast<std::size_t>(stage.stage)],
         stage.papers.total(), true,
         stage.stage == 3
             ? "Right for what is stored; the units that are gathered while they compute come on top "
               "[ZeRO:memory]."
             : "Right for 16-bit gradients and no message buffers; a tree of fp32 nodes needs more "
               "[ZeRO:memory], [ZeRO:nodes]."});
  }
  return counts;
}

std::vector<Count> deepspeed_counts(const Plan& plan) {
  const double p = parameters(plan);
  const double d = sharing_ranks(plan);
  const auto layer = static_cast<double>(plan.largest_unit);
  return {{"stage 2, now", "2 P + 18 P / d", 2 * p + 18 * p / d, false,
           "Counts the gradient twice, in 16 bits and in fp32, both sharded: the paper has 2 P + 14 P / d "
           "[ZeRO:memory]."},
          {"stage 2, earlier", "4 P + 16 P / d", 4 * p + 16 * p / d, false,
           "Keeps a whole 16-bit gradient on every rank, which is stage 1, and counts fp32 gradients too "
           "(erratum 43)."},
          {"stage 3", "4 L + 18 P / d", 4 * layer + 18 * p / d, false,
           "L is the largest layer, in 16-bit parameters and gradients; 18 counts the gradient twice, as in "
           "stage 2 "
           "[ZeRO:memory]."}};
}

std::vector<Count> megatron_counts(const Plan& plan) {
  const double p = parameters(plan);
  const double d = sharing_ranks(plan);
  const std::string gaps = "gaps and ends of buckets come on top [Megatron:memory], [Megatron:buckets].";
  return {{"16-bit gradients", "20 P", 20 * p, true,
           "2 P parameters, 2 P gradients, 16 P of fp32: master, two moments and a copy of the gradient "
           "[Megatron:memory]."},
          {"16-bit gradients, distributed", "4 P + 16 P / d", 4 * p + 16 * p / d, true,
           "The fp32 copy of the gradient is of the shard alone; " + gaps},
          {"bf16, fp32 gradients", "18 P", 18 * p, true,
           "2 P parameters, 4 P gradients, 12 P of state: the default of mixed precision there "
           "[Megatron:memory]."},
          {"bf16, fp32 gradients, distributed", "6 P + 12 P / d", 6 * p + 12 * p / d, true,
           "Whole gradients stay on every rank, so this is stage 1; " + gaps},
          {"fp32", "16 P", 16 * p, true,
           "4 P parameters, which are their own master, 4 P gradients, 8 P moments [Megatron:memory]."},
          {"fp32, distributed", "8 P + 8 P / d", 8 * p + 8 * p / d, true,
           "Parameters are updated where they are, so only the moments are divided; " + gaps}};
}

std::vector<Count> circulating_counts(const Plan& plan) {
  const double p = parameters(plan);
  const double d = sharing_ranks(plan);
  return {{"optimizer state (700 GB at 175B)", "4 P", 4 * p, false,
           "4 bytes are one fp32 value: two 16-bit moments and no master, or one of three (erratum 42)."},
          {"optimizer state (1400 GB)", "8 P", 8 * p, false,
           "Two fp32 moments; the fp32 master of mixed precision is left out (erratum 42)."},
          {"optimizer state (2100 GB)", "12 P", 12 * p, true,
           "Two fp32 moments and the master: K = 12 [ZeRO:memory]."},
          {"parameters, \"sharded\" (350 GB)", "2 P", 2 * p, false,
           "2 P is all of them; sharded (stage 3) it is 2 P / d (erratum 43)."},
          {"gradients, \"sharded\" (350 GB)", "2 P", 2 * p, false,
           "2 P is all of them; sharded (stages 2 and 3) it is 2 P / d (erratum 43)."},
          {"a rank of \"ZeRO\"", "2 P + 2 P + 4 P / d", 4 * p + 4 * p / d, false,
           "The form is stage 1's, which has 12 P / d: nothing but the state is divided (errata 42, 43)."},
          {"traffic, \"as data parallel\"", "4 P + 4 P", 8 * p, false,
           "Elements are equal, bytes are not: fp32 gradients and 16-bit parameters are 6 P (erratum 41, "
           "[ZeRO:volume])."}};
}

}  // namespace zeroproof::verification
