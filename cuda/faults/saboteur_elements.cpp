// Faults of buffers: sums, state, master, parameters.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/float_formats.hpp"
#include "cuda/faults/wrong_leaves.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/micro_batches.hpp"
#include "cuda/production_optimizer.hpp"

namespace zeroproof::cuda {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

void Saboteur::after_reduce() {
  const OptimizerSetup& setup = victim_.setup_;
  const Span<float> sum = victim_.grad_->as<float>();
  if (is("Z70-bf16-accumulator")) {
    for (float& value : sum) value = to_float(to_bf16(value));
  }
  std::vector<bool> idle_bucket(setup.shards->buckets().size(), false);
  const auto bucket_of = [&](std::int64_t global) {
    return at(global / setup.shards->buckets().front().numel());
  };
  for (std::size_t t = 0; t < setup.layout->tensors().size(); ++t) {
    const TensorSlot& slot = setup.layout->tensors()[t];
    if (slot.numel > 0 && !victim_.steps_.has_grad(static_cast<std::int64_t>(t))) {
      idle_bucket[bucket_of(slot.begin)] = true;
    }
  }
  for (const Piece& piece : setup.layout->pieces(victim_.ranges_)) {
    for (std::int64_t k = 0; k < piece.numel; ++k) {
      float& value = sum[at(piece.local_begin + k)];
      if (is("instances-reduced-twice")) value *= static_cast<float>(instances(setup));
      if (is("Z71-reduce-reads-other-buffer")) value = leaves_->own_sum()[at(piece.global_begin + k)];
      if (is("Z73-idle-bucket-not-reduced") && idle_bucket[bucket_of(piece.global_begin)]) {
        value = grad_[at(piece.local_begin + k)];
      }
      if (is("Z110-stale-grad-reapplied") && !old_grad_sum_.empty() &&
          !victim_.steps_.has_grad(piece.tensor)) {
        value = old_grad_sum_[at(piece.local_begin + k)];
      }
    }
  }
  if (is("Z110-stale-grad-reapplied")) old_grad_sum_.assign(sum.begin(), sum.end());
  if (is("tp-parts-after-the-sum")) add_tp_parts();
}

bool Saboteur::wrong_element_update(const Piece& piece) {
  const OptimizerHyper& hyper = victim_.setup_.hyper;
  const StepScalars& c = victim_.steps_.scalars(piece);
  const auto part = [&](const GuardedBuffer& buffer) {
    return buffer.as<float>().subspan(at(piece.local_begin), at(piece.numel));
  };
  const Span<float> master = part(*victim_.master_);
  const Span<float> grad = part(*victim_.grad_);
  const Span<float> buf = victim_.state_.part(BufferId::momentum_buffer, piece);
  const bool rsqrt = is("Z09-eps-after-rsqrt");
  if (!rsqrt && !is("Z21-fma-in-sgd") && !is("Z07-dampening-in-first-step")) return false;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    if (rsqrt) {
      const Span<float> m = victim_.state_.part(BufferId::exp_avg, piece);
      const Span<float> v = victim_.state_.part(BufferId::exp_avg_sq, piece);
      m[i] = c.beta1 * m[i] + c.one_minus_beta1 * grad[i];
      v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (grad[i] * grad[i]);
      const float inverse = c.sqrt_bias_correction2 / std::sqrt(v[i]) + c.eps;
      master[i] -= c.step_size * (m[i] * inverse) + c.lr_weight_decay * master[i];
      continue;
    }
    float g = hyper.maximize ? -grad[i] : grad[i];
    if (c.has_decay != 0) g += c.weight_decay * master[i];
    const bool first = c.is_first != 0 && !is("Z07-dampening-in-first-step");
    buf[i] = first ? g : c.momentum * buf[i] + c.one_minus_dampening * g;
    const float e = hyper.nesterov ? g + c.momentum * buf[i] : buf[i];
    master[i] = is("Z21-fma-in-sgd") ? std::fma(-c.lr, e, master[i]) : master[i] - c.lr * e;
  }
  return true;
}

bool Saboteur::instead_of_update(const Exec& exec, const Piece& piece) {
  const OptimizerSetup& setup = victim_.setup_;
  const std::vector<Piece> own = setup.layout->pieces(victim_.ranges_);
  if (is("Z78-shard-from-unpadded-count")) {
    return piece.local_begin >= setup.layout->numel() / setup.comm->world_size();
  }
  if (is("Z78-uneven-rows-dropped")) return update_without_leftover(exec, piece);
  if (is("Z13-narrow-element-count")) return piece.numel >= 2048;  // 12 bits with a sign
  if (is("Z15-empty-tail-drops-launch")) {
    const auto last_tensor = static_cast<std::int64_t>(setup.layout->tensors().size()) - 1;
    return own.back().tensor != last_tensor && piece.tensor == own.back().tensor;
  }
  if (is("Z20-state-zeroed-each-step"))
    std::ranges::fill(victim_.state_.part(BufferId::exp_avg, piece), 0.0F);
  const auto master = victim_.master_->as<float>().subspan(at(piece.local_begin), at(piece.numel));
  const auto grad = victim_.grad_->as<float>().subspan(at(piece.local_begin), at(piece.numel));
  if (is("Z04-decoupled-for-l2")) {
    victim_.ops_.adamw_update(
        exec, {setup.hyper.amsgrad, setup.hyper.maximize}, victim_.steps_.scalars(piece), grad, master,
        victim_.state_.part(BufferId::exp_avg, piece), victim_.state_.part(BufferId::exp_avg_sq, piece),
        victim_.state_.part(BufferId::max_exp_avg_sq, piece));
    return true;
  }
  if (is("Z23-one-counter-for-subgroups")) {
    const std::int64_t bucket = piece.global_begin / setup.shards->buckets().front().numel();
    const auto t = static_cast<std::int64_t>(victim_.steps_.applied(piece)) + 1 + bucket;
    const StepScalars late =
        host::step_scalars(setup.hyper, t, victim_.scaler_.log2_scale, setup.micro_batches);
    victim_.state_.update(victim_.ops_, exec, setup.hyper, late, piece, grad, master);
    return true;
  }
  if (is("Z127-gradient-read-transposed")) {
    const std::vector<std::int64_t>& shape = setup.layout->tensors()[at(piece.tensor)].shape;
    if (shape.size() != 2 || piece.numel != shape[0] * shape[1]) return false;
    std::vector<float> transposed(grad.size());
    for (std::size_t i = 0; i < grad.size(); ++i) {
      const auto rows = at(shape[0]);
      const auto columns = at(shape[1]);
      transposed[i] = grad[i % rows * columns + i / rows];
    }
    victim_.state_.update(victim_.ops_, exec, setup.hyper, victim_.steps_.scalars(piece), piece, transposed,
                          master);
    return true;
  }
  return wrong_element_update(piece);
}

void Saboteur::after_update() {
  victim_.clip_coef_ = clip_coef_;
  TensorSteps& steps = victim_.steps_;
  if (is("Z29-empty-rank-has-no-step") && owns_nothing()) steps.applied_steps_ = applied_steps_;
  if (is("Z27-counter-shared-by-tensors")) {
    for (std::uint64_t& count : steps.tensor_steps_) ++count;
  }
  if (is("Z05-amsgrad-max-not-kept"))
    std::ranges::copy(max_exp_avg_sq_, victim_.state_[BufferId::max_exp_avg_sq].as<float>().begin());
  if (is("Z117-moments-in-half")) {
    for (float& value : victim_.state_[BufferId::exp_avg_sq].as<float>()) value = to_float(to_bf16(value));
  }
  if (is("fused-cast-of-old-master"))
    std::memcpy(victim_.param_shard_->data(), param_shard_.data(), param_shard_.size());
}

void Saboteur::after_cast() {
  if (!is("Z116-no-master") || !victim_.loaded_) return;
  for (const Piece& piece : victim_.setup_.layout->pieces(victim_.ranges_)) {
    for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
      const bool half = victim_.setup_.param_dtype == DType::fp16;
      victim_.master_->as<float>()[at(i)] = half ? to_float(victim_.param_shard_->as<fp16>()[at(i)])
                                                 : to_float(victim_.param_shard_->as<bf16>()[at(i)]);
    }
  }
}

void Saboteur::after_gather() {
  const OptimizerSetup& setup = victim_.setup_;
  const std::int64_t width = num_bytes(setup.param_dtype);
  auto* full = static_cast<std::byte*>(victim_.params_.full().data());
  if (is("persistent-not-refreshed") && victim_.loaded_ && !param_full_.empty()) {
    std::memcpy(full, param_full_.data(), param_full_.size());
  }
  if (setup.stage == 3) return;  // there is no whole parameter
  if (is("Z84-last-bucket-not-gathered") && setup.stage > 0) {
    const FlatRange last = setup.shards->buckets().back();
    const FlatRange own = setup.shards->slice(setup.shards->buckets().size() - 1, setup.comm->rank());
    for (std::int64_t i = last.begin; i < last.end; ++i) {
      if (i >= own.begin && i < own.end) continue;
      std::memcpy(full + i * width, param_full_.data() + i * width, at(width));
    }
  }
  if (is("Z91-transport-corrupts-a-line") && setup.comm->rank() + 1 == setup.comm->world_size()) {
    for (int i = 0; i < 128; ++i) full[i] ^= std::byte{1};
  }
}

bool Saboteur::after_load(const FullState& state) {
  const OptimizerSetup& setup = victim_.setup_;
  if (is("Z55-scaler-partly-saved")) victim_.scaler_.growth_tracker = 0;
  if (is("Z99-master-from-16-bit")) {
    victim_.loaded_ = true;
    fault_ = "Z116-no-master";  // the same rounding, once
    after_cast();
    fault_ = "Z99-master-from-16-bit";
  }
  if (is("Z103-state-index-shift")) {
    const std::vector<TensorSlot>& tensors = setup.layout->tensors();
    for (const Piece& piece : setup.layout->pieces(victim_.ranges_)) {
      const auto next = at(piece.tensor) + 1;
      if (next >= tensors.size() || tensors[next].numel != tensors[next - 1].numel) continue;
      for (std::int64_t k = 0; k < piece.numel; ++k) {
        victim_.state_[BufferId::exp_avg].as<float>()[at(piece.local_begin + k)] =
            state.exp_avg[at(tensors[next].begin + piece.tensor_begin + k)];
      }
    }
  }
  return false;
}

}  // namespace zeroproof::cuda
