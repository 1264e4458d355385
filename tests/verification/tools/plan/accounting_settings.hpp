#pragma once
// Choices of a run that are not looped over: mixed, but the same in every build.

#include <cstdint>
#include <vector>

#include "tests/verification/tools/plan/accounting_run.hpp"

namespace zeroproof::tests {

/// Small numbers, evenly mixed.
class Shuffle {
 public:
  int below(int end) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(end));
  }
  template <class T, std::size_t n>
  T one_of(const T (&choices)[n]) {
    return choices[below(static_cast<int>(n))];
  }

 private:
  std::uint64_t state_ = 1;
};

inline constexpr LayoutKind grid_layouts[] = {LayoutKind::contract,        LayoutKind::contract,
                                              LayoutKind::megatron,        LayoutKind::greedy,
                                              LayoutKind::deepspeed_param, LayoutKind::fsdp2};

/// Whole leaves; sets all values but grid, layout, buckets, stage, order and M.
inline void vary(AccountedRun& run, Shuffle& rest) {
  OptimizerSetup& setup = run.setup;
  run.fused = rest.one_of({false, true});
  setup.grad_sum = rest.one_of({GradSum::tree, GradSum::tree, GradSum::binned, GradSum::native});
  setup.param_dtype = rest.one_of({DType::bf16, DType::fp32});
  setup.grad_dtype = rest.one_of({DType::bf16, DType::fp16, DType::fp32});
  setup.windows = rest.one_of({Windows::off, Windows::on, Windows::params});
  setup.persistent_numel = rest.one_of({0, 3, 77, 2048, 100'000});
  setup.missing_grad = rest.one_of({MissingGrad::zero, MissingGrad::skip});
  setup.loss_reduction = rest.one_of({LossReduction::mean, LossReduction::tokens});
  const bool whole_chunks = run.layout == LayoutKind::contract && run.grid.tp == 1;
  setup.hyper.norm = rest.one_of(
      {whole_chunks ? NormForm::chunk1024 : NormForm::exact, NormForm::exact, NormForm::inf});
  run.overflows = rest.below(5) == 0;
}

inline const std::vector<int> few_worlds = {2, 5}, all_worlds = {1, 2, 3, 5, 8};

/// Every stage, order, bucket size and kind of layout in these worlds; `change` sets the rest. All
/// worlds have more numbers of micro-batches.
template <class Change>
void check_worlds(const Change& change, const std::vector<int>& worlds) {
  const bool all = worlds.size() == all_worlds.size();
  const std::vector<std::int64_t> counts =
      all ? std::vector<std::int64_t>{1, 3, 7, 16} : std::vector<std::int64_t>{3};
  Shuffle rest;
  for (const int ranks : worlds) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
        for (const std::int64_t micro_batches : counts) {
          for (const std::int64_t bucket_numel : {1024, 4096, 1 << 20}) {
            for (const LayoutKind layout :
                 {LayoutKind::contract, LayoutKind::megatron, LayoutKind::greedy}) {
              AccountedRun run;
              run.layout = layout;
              run.grid.ranks = ranks;
              run.setup.stage = stage;
              run.setup.order = order;
              run.setup.micro_batches = micro_batches;
              run.bucket_numel = bucket_numel;
              change(run, rest);
              check_account(run);
            }
          }
        }
      }
    }
  }
}

/// The same for leaves of a layered model.
inline void vary_layered(AccountedRun& run, Shuffle& rest) {
  vary(run, rest);
  run.leaves =
      rest.one_of({GradsArrive::by_tensor, GradsArrive::by_group, GradsArrive::by_group_again});
  run.setup.overlap = rest.below(2) == 1;
  if (run.leaves != GradsArrive::by_tensor) return;
  run.setup.param_dtype = DType::bf16;  // the only dtype of SyntheticLayers
  run.setup.grad_dtype = DType::fp32;
  run.setup.loss_reduction = LossReduction::mean;
  run.overflows = false;
}

}  // namespace zeroproof::tests
