#include "verification/interfaces/plugin/step_state.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/step/state_buffers.hpp"
#include "cuda/kernel_table.hpp"

namespace zeroproof::verification {
namespace {

/// A buffer that some rules keep, and its place in the undistributed state.
struct KeptBuffer {
  BufferId id;
  Span<const float> FullState::*full;
};
constexpr std::array<KeptBuffer, 5> kept_buffers = {{
    {BufferId::exp_avg, &FullState::exp_avg},
    {BufferId::exp_avg_sq, &FullState::exp_avg_sq},
    {BufferId::max_exp_avg_sq, &FullState::max_exp_avg_sq},
    {BufferId::momentum_buffer, &FullState::momentum_buffer},
    {BufferId::master, &FullState::master},
}};

bool keeps(const OptimizerHyper& hyper, BufferId id) {
  return id == BufferId::master || std::ranges::count(zeroproof::kept_buffers(hyper), id) > 0;
}

}  // namespace

StepState::StepState(const OptimizerSetup& setup)
    : setup_(setup),
      param_(setup, BufferId::param_shard, setup.param_dtype),
      param_full_(setup.layout->padded_numel(), setup.param_dtype) {
  for (const KeptBuffer& buffer : kept_buffers) {
    if (keeps(setup.hyper, buffer.id)) buffers_.emplace_back(setup, buffer.id, DType::fp32);
  }
}

std::vector<std::pair<BufferId, TensorView>> StepState::all_whole() const {
  std::vector<std::pair<BufferId, TensorView>> all;
  for (const KeptBuffer& kept : kept_buffers) {
    TensorView view = {nullptr, DType::fp32, 0};
    for (const CutBuffer& buffer : buffers_) {
      if (buffer.id() == kept.id) view = buffer.whole().view();
    }
    all.emplace_back(kept.id, view);
  }
  return all;
}

void StepState::load(const FullState& state, const cuda::TensorSteps& steps) {
  const std::vector<Piece> pieces = setup_.layout->pieces({{0, setup_.layout->padded_numel()}});
  for (const KeptBuffer& kept : kept_buffers) {
    for (const CutBuffer& buffer : buffers_) {
      if (buffer.id() != kept.id) continue;
      for (const Piece& p : pieces) {
        std::copy_n((state.*kept.full).data() + p.global_begin, p.numel,
                    buffer.whole().as<float>().data() + p.global_begin);
      }
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
