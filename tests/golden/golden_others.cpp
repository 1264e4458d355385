#include <cmath>
#include <functional>
#include <optional>

#include "common/base/philox.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "golden_rows.hpp"
#include "oracle_format_operations.hpp"
#include "oracle_implementations.hpp"
#include "oracle_norm_cases.hpp"
#include "oracle_settings.hpp"
#include "reference/operations.hpp"

namespace zeroproof::golden {
namespace {

using namespace zeroproof::oracle;

/// Calls body(piece) for pieces of several lengths and kinds of data, with and without values that
/// are not finite.
template <class Body>
void for_pieces(Body&& body) {
  for (const DataFamily& family : data_families) {
    for (const std::size_t numel : {0, 1, 31, 33, 1023, 1024, 1025, 40001}) {
      std::vector<float> piece(numel);
      for (std::size_t i = 0; i < numel; ++i) piece[i] = family.value(70000 * numel + i);
      body(Span<const float>(piece));
    }
  }
}

void add_limbs(const Implementation& implementation, NormLimbs limbs, Hasher& hasher) {
  implementation.grad_norm_normalise(limbs);
  for (const std::uint64_t limb : limbs.limbs) hasher.add(limb);
  hasher.add(limbs.nan_count);
  hasher.add(limbs.inf_count);
}

/// The forms whose state is limbs.
void add_limb_form(GradNormAccumulateFn* accumulate, GradNormFinishFn* finish,
                   const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  for_pieces([&](Span<const float> grad) {
    NormLimbs limbs;
    accumulate(exec, grad, limbs);
    hasher.add(finish(limbs));
    add_limbs(implementation, limbs, hasher);
  });
  for (std::uint64_t i = 0; i < 1000; ++i) hasher.add(finish(random_limbs(i)));
}

void norm_chunk1024(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  add_limb_form(implementation.grad_norm_accumulate, implementation.grad_norm_finish,
                implementation, exec, hasher);
}

void norm_exact(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  add_limb_form(implementation.grad_norm_exact_accumulate, implementation.grad_norm_finish,
                implementation, exec, hasher);
}

void norm_one(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  add_limb_form(implementation.grad_abs_accumulate, implementation.grad_abs_finish, implementation,
                exec, hasher);
}

void norm_inf(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  for_pieces([&](Span<const float> grad) {
    std::uint32_t amax = 0;
    implementation.grad_max_accumulate(exec, grad, amax);
    hasher.add(std::uint64_t{amax});
    hasher.add(implementation.grad_max_finish(amax));
  });
}

/// Two tensors in overlapping segments, and one without any.
void stats_of_tensors(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  for_pieces([&](Span<const float> grad) {
    const std::int64_t size = numel(grad);
    const std::vector<GradSegment> segments = {
        {size / 3, size - size / 3, 2}, {0, size, 0}, {0, size / 2, 2}};
    std::vector<GradStats> stats(3);
    implementation.grad_stats(exec, grad, segments, stats);
    for (const GradStats& of_tensor : stats) {
      hasher.add(std::uint64_t{of_tensor.amax});
      hasher.add(of_tensor.num_nonfinite);
      hasher.add(of_tensor.num_zeros);
    }
  });
}

/// The first fused pass in all its forms. After found_inf only the counts of the chunk limbs are
/// defined.
void fused_norms(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  for (const float inv_scale : {1.0F, 0x1p-16F, 0.333333343F}) {
    for_pieces([&](Span<const float> grad_sum) {
      NormLimbs chunks, exact, one;
      std::uint32_t amax = 0;
      const bool found_inf = cuda::host::fused_finite_and_norm(exec, inv_scale, grad_sum, chunks);
      hasher.add(std::uint64_t{found_inf ? 1U : 0U});
      hasher.add(std::uint64_t{cuda::host::fused_finite(exec, inv_scale, grad_sum) ? 1U : 0U});
      if (found_inf) chunks.limbs = {};
      cuda::host::fused_norm_exact(exec, inv_scale, grad_sum, exact);
      cuda::host::fused_norm_abs(exec, inv_scale, grad_sum, one);
      cuda::host::fused_norm_max(exec, inv_scale, grad_sum, amax);
      for (const NormLimbs& limbs : {chunks, exact, one}) add_limbs(implementation, limbs, hasher);
      hasher.add(std::uint64_t{amax});
    });
  }
}

void clip_coef(const Implementation& implementation, const Exec&, Hasher& hasher) {
  const std::optional<double> limits[] = {std::nullopt, 0.0, 0x1p-1074, 1e-3, 1.0, 5.0, 1e300};
  for (const auto& max_norm : limits) {
    for (const double grad_norm :
         {0.0, 0x1p-1074, 1e-6, 0.3, 0.999999, 1.0, 1.000001, 7.5e9, 0x1p1023,
          static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
      float coef = implementation.clip_coef(grad_norm, max_norm);
      hasher.add(TensorView{&coef, DType::fp32, 1});
    }
  }
}

void tree(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  constexpr std::size_t numel = 20011;
  std::vector<std::vector<float>> leaves;
  for (std::uint64_t count = 1; count <= 17; ++count) {
    std::vector<float>& leaf = leaves.emplace_back(numel);
    const Family family = count % 2 == 0 ? Family::training : Family::near_subnormal;
    for (std::size_t i = 0; i < numel; ++i) leaf[i] = make_element(family, (count << 20) + i)[0];
    const std::vector<Span<const float>> views(leaves.begin(), leaves.end());
    std::vector<float> sum(numel);
    implementation.grad_sum(exec, views, sum);
    hasher.add(TensorView{sum.data(), DType::fp32, numel});
  }
}

void step_scalars(const Implementation& implementation, const Exec&, Hasher& hasher) {
  for (const auto make : {valid_settings, cancelling_settings}) {
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const Settings c = make(i);
      StepScalars scalars =
          implementation.step_scalars(to_hyper(c.hyper), c.t, c.log2_loss_scale, c.divisor);
      hasher.add(TensorView{&scalars, DType::u32, num_step_scalar_words});
    }
  }
}

/// Parts of tensors in blocks of several shapes, each added to the result of the one before.
void block_amax(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  for (int set = 0; set < num_block_sets; ++set) {
    for_pieces([&](Span<const float> values) {
      const BlockGrid grid = block_grid(set, numel(values));
      std::vector<std::uint32_t> amax(grid.num_blocks());
      implementation.block_amax(exec, grid, block_sets[set].value, block_sets[set].first, values,
                                amax);
      hasher.add(TensorView{amax.data(), DType::u32, grid.num_blocks()});
    });
  }
}

/// Windows of several lengths that move, one tensor in three being empty.
void delayed_scales(const Implementation& implementation, const Exec& exec, Hasher& hasher) {
  constexpr std::size_t tensors = 33;
  for (const std::int64_t slots : {1, 2, 5, 1024}) {
    for (int rule = 0; rule < 4; ++rule) {
      const DelayedScaling options{Fp8::e4m3, rule, slots, static_cast<AmaxChoice>(rule / 2),
                                   static_cast<EmptyAmax>(rule % 2)};
      std::vector<std::uint32_t> history(tensors * static_cast<std::size_t>(slots));
      std::vector<float> scale(tensors, 1.0F), scale_inv(tensors);
      for (std::uint64_t step = 0; step < 7; ++step) {
        for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
          const Family family = step % 2 == 0 ? Family::training : Family::special;
          const float amax =
              (tensor + step) % 3 == 0 ? 0 : make_element(family, 100 * step + tensor)[0];
          history[tensor * static_cast<std::size_t>(slots)] =
              std::bit_cast<std::uint32_t>(amax) & 0x7FFFFFFFU;
        }
        implementation.delayed_scales(exec, options, history, scale, scale_inv);
        hasher.add(TensorView{history.data(), DType::u32, std::ssize(history)});
        hasher.add(TensorView{scale.data(), DType::fp32, std::ssize(scale)});
        hasher.add(TensorView{scale_inv.data(), DType::fp32, std::ssize(scale_inv)});
      }
    }
  }
}

struct Other {
  const char* name;
  bool (*has)(const Implementation&);
  void (*digest)(const Implementation&, const Exec&, Hasher&);
};
/// One line per operation.
constexpr Other others[] = {
    {"norm_chunk1024", [](const Implementation& t) { return t.grad_norm_accumulate != nullptr; },
     norm_chunk1024},
    {"norm_exact", [](const Implementation& t) { return t.grad_norm_exact_accumulate != nullptr; },
     norm_exact},
    {"norm_one", [](const Implementation& t) { return t.grad_abs_accumulate != nullptr; },
     norm_one},
    {"norm_inf", [](const Implementation& t) { return t.grad_max_accumulate != nullptr; },
     norm_inf},
    {"grad_stats", [](const Implementation& t) { return t.grad_stats != nullptr; },
     stats_of_tensors},
    {"fused_norms", [](const Implementation& t) { return t.is_host; }, fused_norms},
    {"clip_coef", [](const Implementation& t) { return t.clip_coef != nullptr; }, clip_coef},
    {"tree", [](const Implementation& t) { return t.grad_sum != nullptr; }, tree},
    {"block_amax", [](const Implementation& t) { return t.block_amax != nullptr; }, block_amax},
    {"delayed_scales", [](const Implementation& t) { return t.delayed_scales != nullptr; },
     delayed_scales},
    {"step_scalars", [](const Implementation& t) { return t.step_scalars != nullptr; },
     step_scalars},
};

/// Sequences of steps with rare and with frequent overflows, under settings where every branch is
/// taken.
Digest digest_loss_scaler(LossScalerInitFn* init, LossScalerUpdateFn* update) {
  Hasher hasher;
  std::uint32_t stream = 0;
  for (const HysteresisRefill refill : {HysteresisRefill::growth, HysteresisRefill::good_step}) {
    for (const int hysteresis : {1, 2, 3}) {
      for (const int growth_interval : {1, 3, 10}) {
        const LossScalerConfig config{LossScalerKind::dynamic, 8,          2,     1, 3, 14,
                                      growth_interval,         hysteresis, refill};
        const Philox philox(11, stream++);
        LossScalerState state = init(config);
        for (std::uint64_t i = 0; i < 500; ++i) {
          state = update(config, state, philox.below(i, i < 250 ? 8 : 2) == 0);
          hasher.add(TensorView{&state, DType::u32, sizeof state / sizeof(std::uint32_t)});
        }
      }
    }
  }
  return hasher.digest();
}

}  // namespace

std::vector<Row> other_rows(int threads) {
  std::vector<Row> rows;
  for (const Other& other : others) {
    std::vector<Seen> seen;
    for (const Implementation& implementation : all_implementations()) {
      if (!other.has(implementation)) continue;
      Exec exec = implementation.exec;
      exec.num_threads = threads;
      Hasher hasher;
      other.digest(implementation, exec, hasher);
      seen.push_back({implementation.name, hasher.digest()});
    }
    rows.push_back(agreed(std::string("op ") + other.name, seen));
  }
  rows.push_back(
      agreed("op loss_scaler", {{"reference", digest_loss_scaler(reference::loss_scaler_init,
                                                                 reference::loss_scaler_update)},
                                {"host", digest_loss_scaler(cuda::host::loss_scaler_init,
                                                            cuda::host::loss_scaler_update)}}));
  return rows;
}

}  // namespace zeroproof::golden
