#include "verification/bench/device/kernel_data.hpp"

#include <algorithm>

#include "cuda/device/runtime/memory.hpp"
#include "cuda/device/step/piece_numel.hpp"
#include "cuda/reduce/sources/fill_grad.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

using cuda::device_space;
using namespace cuda::device;

/// Steps that the rows may count.
constexpr std::int64_t schedule_rows = 65536;

StepRules step_rules() {
  StepRules rules;
  rules.hyper = step_hyper(true);
  rules.scaler.kind = LossScalerKind::constant;
  rules.scaler.log2_initial = log2_loss_scale;
  return rules;
}

std::vector<StepPiece> step_pieces(std::int64_t numel) {
  std::vector<StepPiece> pieces;
  const std::int64_t most = step_piece_numel(numel);
  for (std::int64_t begin = 0; begin < numel; begin += most) {
    StepPiece piece;
    piece.local_begin = piece.tensor_begin = begin;
    piece.numel = std::min(most, numel - begin);
    piece.counted = 1;
    piece.row_numel = piece.row_stride = numel;
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

KernelData::KernelData(std::int64_t numel, int num_leaves)
    : numel_(numel),
      layout_({{"all", {numel}}}),
      rules_(step_rules()),
      record_(device_space(), 1),
      input_(device_space(), 1),
      scalars_(device_space(), 1),
      schedule_(device_space(), schedule_rows),
      pieces_(device_space(), static_cast<std::int64_t>(step_pieces(numel).size())),
      grad_(device_space(), numel),
      master_(device_space(), numel),
      exp_avg_(device_space(), numel),
      exp_avg_sq_(device_space(), numel),
      param_(device_space(), numel),
      scratch_(device_space(), numel),
      sink_(device_space(), 1) {
  for (int i = 0; i < num_leaves; ++i) leaves_.emplace_back(device_space(), numel);
  fill();
  memory_.state = &record_.data()->state;  // only their addresses are used here
  memory_.input = input_.data();
  memory_.found = &record_.data()->found;
  memory_.scalars = scalars_.data();
  memory_.schedule = schedule_.data();
  memory_.pieces = pieces_.data();
  memory_.grad = grad_.data();
  memory_.master = master_.data();
  memory_.slots = {exp_avg_.data(), exp_avg_sq_.data()};
  memory_.param = param_.data();
  memory_.num_sets = 1;
  memory_.num_pieces = pieces_.count();
  // Scalars and a clip coefficient for rows that are a part of a step.
  clear_found();
  enqueue_finite_norm(memory_, rules_);
  enqueue_decide(memory_, rules_, decide_scalars | decide_scaler | decide_norm | decide_clip,
                 false);
  device_space().wait();
}

void KernelData::fill() {
  StepRecord record{};
  record.state = {static_cast<std::uint64_t>(steps_before), {log2_loss_scale, 0, 1}, 0};
  record_.write(record);
  input_.write({1, steps_before + 1, schedule_rows});
  schedule_.write(
      std::vector<ScheduleRow>(schedule_rows, {rules_.hyper.lr, rules_.hyper.weight_decay}));
  pieces_.write(step_pieces(numel_));
  const cuda::SpaceArray<std::int32_t> scales(device_space(), 3);
  scales.write(std::vector<std::int32_t>{log2_loss_scale, 0, -4});
  const auto made = [&](std::int64_t number, int scale, void* to, DType dtype) {
    enqueue_leaf({}, 0, number, 0, scales.data() + scale, {to, dtype, numel_});
  };
  made(0, 0, grad_.data(), DType::fp32);
  made(1, 1, master_.data(), DType::fp32);
  made(2, 2, exp_avg_.data(), DType::fp32);
  exp_avg_sq_.fill(0x38);  // 4.4e-5
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    made(static_cast<std::int64_t>(i), 0, leaves_[i].data(), DType::bf16);
  device_space().wait();
}

void KernelData::clear_found() const { enqueue_fill(memory_.found, 0, sizeof(StepFound)); }

StepFound KernelData::found() const { return record_.read().found; }

StepAccess KernelData::access() const {
  return {grad_.data(), master_.data(), exp_avg_.data(), exp_avg_sq_.data(),
          static_cast<std::uint16_t*>(scratch())};
}

std::vector<const std::uint16_t*> KernelData::leaves(int count) const {
  std::vector<const std::uint16_t*> first;
  for (int i = 0; i < count; ++i) first.push_back(leaves_[i].data());
  return first;
}

}  // namespace zeroproof::verification::bench
