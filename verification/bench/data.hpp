#pragma once
// The buffers all rows share. Every implementation that is timed owns the state it advances, and all states
// start from the same values, so that what the timed calls left behind can be compared bit by bit when the
// rounds are over.

#include <cstdint>

#include "common/contracts/step_scalars.hpp"
#include "verification/bench/measure/huge_buffer.hpp"
#include "verification/bench/measure/worker_team.hpp"

namespace zeroproof::verification::bench {

struct State {
  explicit State(std::int64_t numel) : master(numel), exp_avg(numel), exp_avg_sq(numel) {}

  HugeBuffer<float> master, exp_avg, exp_avg_sq;  // [numel]
};

struct Data {
  /// numel: a multiple of work_block.
  Data(std::int64_t numel, WorkerTeam& team);

  std::int64_t numel;
  std::int64_t slice_numel;  ///< elements of the one-thread rows: an eighth, but at least one block
  OptimizerHyper hyper;
  StepScalars scalars;

  HugeBuffer<float> grad_sum;        // [numel], never written after the start
  HugeBuffer<float> work_grad;       // [numel], the gradient of the seven passes, which overwrite it
  HugeBuffer<std::uint16_t> half;    // [numel], target of single casts
  HugeBuffer<std::uint8_t> bytes;    // [numel], the same for 8-bit formats
  State rules;                       // [numel], advanced by the rows of all other rules, one after another
  HugeBuffer<float> max_exp_avg_sq;  // [numel], of rules
  State threads;                     // [numel], adamw on all threads
  State fused, seven;                // [numel]
  HugeBuffer<std::uint16_t> fused_param, seven_param;  // [numel], bf16
  State serial, reference;                             // [slice_numel], adamw on one thread
};

}  // namespace zeroproof::verification::bench
