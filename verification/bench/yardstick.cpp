#include "verification/bench/yardstick.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

/// Values of a gradient.
template <class T>
Span<const T> part(const TensorView& leaf, std::int64_t begin, std::int64_t end) {
  return {static_cast<const T*>(leaf.data) + begin, static_cast<std::size_t>(end - begin)};
}

void add_narrow(const TensorView& leaf, const HugeBuffer<float>& sum, std::int64_t begin,
                std::int64_t end) {
  std::array<float, work_block> wide;  // small enough for the cache
  for (; begin < end; begin += work_block) {
    const std::int64_t stop = std::min(begin + work_block, end);
    const Span<float> right(wide.data(), stop - begin);
    host::widen_bf16({}, part<bf16>(leaf, begin, stop), right);
    host::add_nodes({}, part(sum, begin, stop), right, part(sum, begin, stop));
  }
}

template <class T>
bool same(const HugeBuffer<T>& got, const void* wanted, std::int64_t numel) {
  return std::memcmp(got.data(), wanted, numel * sizeof(T)) == 0;
}

}  // namespace

Yardstick::Yardstick(const ProductCase& what, std::int64_t padded_numel, const Leaves& leaves,
                     WorkerTeam& team)
    : what_(what),
      numel_(what.numel),
      leaves_(leaves),
      team_(team),
      state_(padded_numel, team),
      sum_(padded_numel),
      param_(padded_numel),
      moved_(padded_numel) {
  exec_.num_threads = what.threads;
  team_.run(padded_numel, [this](std::int64_t begin, std::int64_t end) {
    std::ranges::fill(part(sum_, begin, end), 0.0F);
    for (const auto* buffer : {&param_, &moved_})
      std::ranges::fill(part(*buffer, begin, end), std::uint16_t{0xFFFF});
  });
}

TensorView Yardstick::leaf(std::int64_t micro_batch) const {
  TensorView view = leaves_.view(micro_batch);
  view.numel = numel_;
  return view;
}

void Yardstick::add(std::int64_t micro_batch) const {
  const TensorView values = leaf(micro_batch);
  if (values.dtype == DType::fp32) {
    const Span<float> sum = part(sum_, 0, numel_);
    return host::add_nodes(exec_, sum, part<float>(values, 0, numel_), sum);
  }
  team_.run(numel_,
            [&](std::int64_t begin, std::int64_t end) { add_narrow(values, sum_, begin, end); });
}

Span<const float> Yardstick::summed() const {
  const TensorView first = leaf(0);
  const Span<float> sum = part(sum_, 0, numel_);
  std::int64_t next = 1;
  if (first.dtype != DType::fp32) {
    host::widen_bf16(exec_, part<bf16>(first, 0, numel_), sum);
  } else if (what_.micro_batches == 1) {
    return part<float>(first, 0, numel_);
  } else {
    host::add_nodes(exec_, part<float>(first, 0, numel_), part<float>(leaf(next++), 0, numel_),
                    sum);
  }
  for (; next < what_.micro_batches; ++next) add(next);
  return sum;
}

void Yardstick::step() {
  const OptimizerHyper hyper = step_hyper(true);
  const StepScalars scalars =
      host::step_scalars(hyper, steps_before + ++steps_, log2_loss_scale, what_.micro_batches);
  const Span<const float> grad_sum = summed();
  NormLimbs limbs;
  if (host::fused_finite_and_norm(exec_, scalars.inv_scale, grad_sum, limbs)) return;
  const float coef = host::clip_coef(host::grad_norm_finish(limbs), hyper.max_norm);
  host::fused_update(exec_, host::fused_options(hyper), scalars, coef, grad_sum,
                     {part(state_.master, 0, numel_),
                      {part(state_.exp_avg, 0, numel_), part(state_.exp_avg_sq, 0, numel_)}},
                     {param_.data(), DType::bf16, numel_});
}

bool Yardstick::as_contract(const ContractResult& wanted) const {
  return same(state_.master, wanted.master.data(), numel_) &&
         same(state_.exp_avg, wanted.exp_avg.data(), numel_) &&
         same(state_.exp_avg_sq, wanted.exp_avg_sq.data(), numel_) &&
         same(param_, wanted.param.data(), numel_);
}

Row Yardstick::limit(const std::string& name, const std::string& shape,
                     const LimitLoop& loop) const {
  LimitBuffers buffers{
      .grad = sum_.data(),
      .work = sum_.data(),
      .state = {state_.master.data(), state_.exp_avg.data(), state_.exp_avg_sq.data()},
      .half = moved_.data()};
  const void* first = leaf(0).data;
  if (loop.narrow) buffers.grad16 = static_cast<const std::uint16_t*>(first);
  if (shape == "addition" && !loop.narrow) buffers.grad = static_cast<const float*>(first);
  const std::int64_t chunks = numel_ / layout_alignment * layout_alignment;
  const auto body = [this, &loop, buffers, chunks] {
    team_.run(chunks, [&](std::int64_t begin, std::int64_t end) { loop(buffers, begin, end); });
  };
  return {name, 0, numel_, timed(body), {}, shape};
}

std::vector<Row> Yardstick::rows() {
  const bool narrow = what_.grad_dtype == DType::bf16;
  const bool one = narrow && what_.micro_batches == 1;  // the gradient is read, not a sum
  const char* update = one ? "R2+3R3W+W2" : "4R3W+W2";
  std::vector<Row> all = {{"implementations", 0, numel_, timed([this] { step(); })},
                          {"addition", 0, numel_, timed([this] { add(what_.micro_batches - 1); })}};
  if (what_.micro_batches > 1)
    all.push_back(limit("limit addition", "addition", limit_loop(narrow ? "R2+RW" : "2R1W")));
  all.push_back(limit("limit read", "read", limit_loop(one ? "R2" : "R")));
  all.push_back(limit("limit update", "update", limit_loop(update)));
  all.push_back(limit("limit update nt", "update", limit_loop(update, true)));
  return all;
}

}  // namespace zeroproof::verification::bench
