#include "verification/bench/product/twin_step.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/step_scalars.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

/// The compiler cannot see through it: with it every in-place loop writes back the bits it read.
constexpr std::uint32_t keep_bits = 0;

/// Values of a leaf, [numel].
template <class T>
Span<const T> part(const TensorView& leaf, std::int64_t begin, std::int64_t end) {
  return {static_cast<const T*>(leaf.data) + begin, static_cast<std::size_t>(end - begin)};
}

Span<float> part(const HugeBuffer<float>& buffer, std::int64_t begin, std::int64_t end) {
  return buffer.span().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

void add_narrow(const TensorView& leaf, const HugeBuffer<float>& sum, std::int64_t begin, std::int64_t end) {
  std::array<float, work_block> wide;  // stays in the cache
  for (; begin < end; begin += work_block) {
    const std::int64_t stop = std::min(begin + work_block, end);
    const Span<float> right(wide.data(), static_cast<std::size_t>(stop - begin));
    host::widen_bf16({}, part<bf16>(leaf, begin, stop), right);
    host::add_nodes({}, part(sum, begin, stop), right, part(sum, begin, stop));
  }
}

template <class T>
bool same(const HugeBuffer<T>& got, const void* wanted, std::int64_t numel) {
  return std::memcmp(got.data(), wanted, static_cast<std::size_t>(numel) * sizeof(T)) == 0;
}

}  // namespace

TwinStep::TwinStep(const ProductCase& what, std::int64_t padded_numel, const Leaves& leaves, WorkerTeam& team)
    : what_(what),
      numel_(what.numel),
      leaves_(leaves),
      team_(team),
      master_(padded_numel),
      exp_avg_(padded_numel),
      exp_avg_sq_(padded_numel),
      sum_(padded_numel),
      param_(padded_numel),
      moved_(padded_numel) {
  team_.run(padded_numel, [this](std::int64_t begin, std::int64_t end) {
    fill_master(begin, part(master_, begin, end));
    fill_exp_avg(begin, part(exp_avg_, begin, end));
    fill_exp_avg_sq(begin, part(exp_avg_sq_, begin, end));
    std::fill(sum_.data() + begin, sum_.data() + end, 0.0F);
    for (const auto* buffer : {&param_, &moved_})
      std::fill(buffer->data() + begin, buffer->data() + end, std::uint16_t{0xFFFF});
  });
}

FullState TwinStep::first_state() const {
  FullState state;
  state.master = master_.span();
  state.exp_avg = exp_avg_.span();
  state.exp_avg_sq = exp_avg_sq_.span();
  state.applied_steps = steps_before;
  state.scaler.log2_scale = log2_loss_scale;
  return state;
}

TensorView TwinStep::leaf(std::int64_t micro_batch) const {
  TensorView view = leaves_.view(micro_batch);
  view.numel = numel_;
  return view;
}

void TwinStep::add(std::int64_t micro_batch) const {
  const TensorView values = leaf(micro_batch);
  if (values.dtype == DType::fp32) {
    Exec exec;
    exec.num_threads = what_.threads;
    const Span<float> sum = part(sum_, 0, numel_);
    return host::add_nodes(exec, sum, part<float>(values, 0, numel_), sum);
  }
  team_.run(numel_, [&](std::int64_t begin, std::int64_t end) { add_narrow(values, sum_, begin, end); });
}

void TwinStep::accumulate() { add(what_.micro_batches - 1); }

Span<const float> TwinStep::summed() {
  Exec exec;
  exec.num_threads = what_.threads;
  const TensorView first = leaf(0);
  const bool wide = first.dtype == DType::fp32;
  const Span<float> sum = part(sum_, 0, numel_);
  if (wide && what_.micro_batches == 1) return part<float>(first, 0, numel_);
  std::int64_t next = 1;
  if (wide) {
    host::add_nodes(exec, part<float>(first, 0, numel_), part<float>(leaf(next), 0, numel_), sum);
    ++next;
  } else {
    host::widen_bf16(exec, part<bf16>(first, 0, numel_), sum);
  }
  for (; next < what_.micro_batches; ++next) add(next);
  return sum;
}

void TwinStep::step() {
  Exec exec;
  exec.num_threads = what_.threads;
  const OptimizerHyper hyper = step_hyper(true);
  const StepScalars scalars =
      host::step_scalars(hyper, steps_before + ++steps_, log2_loss_scale, what_.micro_batches);
  const Span<const float> grad_sum = summed();
  NormLimbs limbs;
  if (host::fused_finite_and_norm(exec, scalars.inv_scale, grad_sum, limbs)) return;
  const float coef = host::clip_coef(host::grad_norm_finish(limbs), hyper.max_norm);
  host::fused_update(
      exec, host::fused_options(hyper), scalars, coef, grad_sum,
      {part(master_, 0, numel_), part(exp_avg_, 0, numel_), part(exp_avg_sq_, 0, numel_), {}, {}},
      {param_.data(), DType::bf16, numel_});
}

bool TwinStep::as_contract(const ContractResult& wanted) const {
  return same(master_, wanted.master.data(), numel_) && same(exp_avg_, wanted.exp_avg.data(), numel_) &&
         same(exp_avg_sq_, wanted.exp_avg_sq.data(), numel_) && same(param_, wanted.param.data(), numel_);
}

void TwinStep::move_addition(const LimitLoops& loops) const {
  const TensorView from = leaf(0);
  team_.run(numel_ / layout_alignment * layout_alignment, [&](std::int64_t b, std::int64_t e) {
    if (from.dtype == DType::fp32) {
      loops.add(keep_bits, sum_.data() + b, part<float>(from, b, e).data(), e - b);
    } else {
      loops.add16(keep_bits, sum_.data() + b, part<std::uint16_t>(from, b, e).data(), e - b);
    }
  });
}

void TwinStep::move_read(const LimitLoops& loops) const {
  // Of several micro-batches the sum is read, otherwise the one leaf.
  const bool narrow = what_.grad_dtype == DType::bf16 && what_.micro_batches == 1;
  const TensorView from = narrow ? leaf(0) : TensorView{sum_.data(), DType::fp32, numel_};
  team_.run(numel_ / layout_alignment * layout_alignment, [&](std::int64_t b, std::int64_t e) {
    volatile std::uint32_t used = narrow ? loops.read16(part<std::uint16_t>(from, b, e).data(), e - b)
                                         : loops.read(part<float>(from, b, e).data(), e - b);
    static_cast<void>(used);
  });
}

void TwinStep::move_update(const LimitLoops& loops, bool streamed) const {
  const bool narrow = what_.grad_dtype == DType::bf16 && what_.micro_batches == 1;
  const TensorView from = narrow ? leaf(0) : TensorView{sum_.data(), DType::fp32, numel_};
  const auto wide_loop = streamed ? loops.step_streamed : loops.step;
  const auto narrow_loop = streamed ? loops.step16_streamed : loops.step16;
  team_.run(numel_ / layout_alignment * layout_alignment, [&](std::int64_t b, std::int64_t e) {
    float *p = master_.data() + b, *m = exp_avg_.data() + b, *v = exp_avg_sq_.data() + b;
    if (narrow) {
      narrow_loop(keep_bits, part<std::uint16_t>(from, b, e).data(), p, m, v, moved_.data() + b, e - b);
    } else {
      wide_loop(keep_bits, part<float>(from, b, e).data(), p, m, v, moved_.data() + b, e - b);
    }
  });
}

}  // namespace zeroproof::verification::bench
