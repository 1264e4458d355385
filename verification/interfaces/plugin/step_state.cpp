#include "verification/interfaces/plugin/step_state.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/step/state_buffers.hpp"
#include "cuda/kernel_table.hpp"

namespace zeroproof::verification {
StepState::StepState(const OptimizerSetup& setup)
    : setup_(setup),
      param_(setup, BufferId::param_shard, setup.param_dtype),
      param_full_(setup.layout->padded_numel(), setup.param_dtype) {
  for (const StateSlot slot : kept_slots(setup.hyper))
    buffers_.emplace_back(setup, buffer_of(slot), DType::fp32);
  buffers_.emplace_back(setup, BufferId::master, DType::fp32);
}

std::vector<std::pair<BufferId, TensorView>> StepState::all_whole() const {
  std::vector<std::pair<BufferId, TensorView>> all;
  for (const StateSlot slot : all_state_slots)
    all.emplace_back(buffer_of(slot), TensorView{nullptr, DType::fp32, 0});
  all.emplace_back(BufferId::master, TensorView{});
  for (auto& [id, view] : all) {
    const auto buffer = std::ranges::find(buffers_, id, &CutBuffer::id);
    if (buffer != buffers_.end()) view = buffer->whole().view();
  }
  return all;
}

void StepState::load(const FullState& state, const cuda::TensorSteps& steps) {
  const std::vector<Piece> pieces = setup_.layout->pieces({{0, setup_.layout->padded_numel()}});
  for (const CutBuffer& buffer : buffers_) {
    const std::optional<StateSlot> slot = slot_of(buffer.id());
    const Span<const float> from = slot ? state.slots[*slot] : state.master;
    for (const Piece& p : pieces) {
      std::copy_n(from.data() + p.global_begin, p.numel,
                  buffer.whole().as<float>().data() + p.global_begin);
    }
  }
  for (const Piece& p : pieces) round(p, steps);
  keep_own();
}

/// The parameter of a piece, from its master.
void StepState::round(const Piece& p, const cuda::TensorSteps& steps) {
  const auto begin = static_cast<std::size_t>(p.global_begin),
             numel = static_cast<std::size_t>(p.numel);
  const Span<const float> master = buffers_.back().whole().as<float>().subspan(begin, numel);
  const cuda::KernelTable& ops = cuda::host_ops();
  if (setup_.param_rounding == ParamRounding::stochastic) {
    const RoundingDraw draw = {setup_.seed, steps.applied(p),
                               static_cast<std::uint64_t>(p.global_begin)};
    return ops.stochastic_cast_to_bf16(setup_.exec, draw, master,
                                       param_.whole().as<bf16>().subspan(begin, numel));
  }
  const auto narrow = [&](auto one) {
    ops.narrow(setup_.exec, master, param_.whole().as<decltype(one)>().subspan(begin, numel));
  };
  if (setup_.param_dtype == DType::bf16) return narrow(bf16{});
  if (setup_.param_dtype == DType::fp16) return narrow(fp16{});
  narrow(float{});
}

void StepState::gather() {
  for (CutBuffer& buffer : buffers_) buffer.gather();
  param_.gather();
}

void StepState::keep_own() {
  for (CutBuffer& buffer : buffers_) buffer.keep_own();
  param_.keep_own();
  std::memcpy(param_full_.data(), param_.whole().data(),
              static_cast<std::size_t>(param_full_.view().num_bytes()));
}

}  // namespace zeroproof::verification
