// Scales of the step from the largest magnitudes of all ranks (R24).

#include "cuda/device/kernels/formats/scale_element.cuh"
#include "cuda/device/step/scale_walk.cuh"

namespace zeroproof::cuda::device {

namespace {

/// One block: its scale and scale_inv.
struct ScaleOfCurrent {
  CurrentScale scale_of;

  ZP_DEVICE void operator()(std::uint32_t amax, float& scale, float& scale_inv) const {
    scale = scale_of(amax);
    scale_inv = 1.0F / scale;
  }
};

struct ScaleOfMxfp8 {
  Mxfp8Exponent exponent_of;

  ZP_DEVICE void operator()(std::uint32_t amax, float& scale, float& scale_inv) const {
    const std::uint8_t code = exponent_of(amax);
    scale = Mxfp8Exponent::scale_of(code);
    scale_inv = float_of_e8m0(code);
  }
};

template <class Recipe>
ZP_KERNEL scales_kernel(StepMemory memory, ScaleMemory scales, Recipe recipe) {
  if (!step_goes_on(memory)) return;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       b < scales.num_blocks; b += stride) {
    const bool joins = takes_part(memory, scales, b);
    scales.amax[b] = joins ? static_cast<std::uint32_t>(scales.collected[b]) : 0U;
    scales.collected[b] = 0U;
    if (joins) recipe(scales.amax[b], scales.scale[b], scales.scale_inv[b]);
  }
}

struct History {
  static constexpr int most_slots = 1024;
  static constexpr int slots_per_thread = most_slots / block_threads;

  DelayedScale scale_of;
  std::int32_t slots;  ///< 1 to most_slots
  bool takes_largest, rolls_empty;
};

/// One block of threads per history: all slots are read before one of them is written.
ZP_KERNEL history_kernel(StepMemory memory, ScaleMemory scales, History rule) {
  ZP_SHARED_ARRAY(std::uint32_t, largest, 1);
  if (!step_goes_on(memory)) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int last = rule.slots - 1;
  for (std::int64_t b = blockIdx.x; b < scales.num_blocks; b += gridDim.x) {
    if (!takes_part(memory, scales, b)) {
      if (thread == 0) scales.amax[b] = 0U;
      if (thread == 0) scales.collected[b] = 0U;
      continue;
    }
    std::uint32_t* const h = scales.history + b * rule.slots;
    if (thread == 0) largest[0] = 0U;
    __syncthreads();
    const std::uint32_t before = h[0];
    const bool moves = before != 0U || rule.rolls_empty;
    std::uint32_t next[History::slots_per_thread] = {};
    std::uint32_t mine = 0;
    ZP_UNROLL
    for (int k = 0; k < History::slots_per_thread; ++k) {
      const int slot = thread + k * block_threads;
      if (slot > last) continue;
      mine = mine < h[slot] ? h[slot] : mine;
      next[k] = slot < last ? h[slot + 1] : before;
    }
    if (mine != 0U) atomicMax(largest, mine);
    __syncthreads();
    ZP_UNROLL
    for (int k = 0; k < History::slots_per_thread; ++k) {
      const int slot = thread + k * block_threads;
      if (moves && slot > 0 && slot <= last) h[slot] = next[k];
    }
    if (thread == 0) {
      const auto amax = static_cast<std::uint32_t>(scales.collected[b]);
      if (moves)
        scales.scale[b] = rule.scale_of(rule.takes_largest ? largest[0] : before, scales.scale[b]);
      scales.scale_inv[b] = 1.0F / scales.scale[b];
      scales.amax[b] = amax;
      scales.collected[b] = 0U;
      h[0] = amax;
    }
    __syncthreads();  // before the maximum of the next history
  }
}

ZP_KERNEL inverse_kernel(ScaleMemory scales) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       b < scales.num_blocks; b += stride) {
    scales.scale_inv[b] = 1.0F / scales.scale[b];
  }
}

void make_history_scales(const StepMemory& memory, const ScaleMemory& scales,
                         const ScaleRules& rules) {
  const DelayedScaling options = delayed_of(rules.scaling, rules.param_dtype);
  const History rule{delayed_scale(options.format, options.margin),
                     static_cast<std::int32_t>(options.history), options.choice == AmaxChoice::max,
                     options.empty == EmptyAmax::roll};
  launch(history_kernel, grid_blocks(scales.num_blocks * block_threads), block_threads, memory,
         scales, rule);
}

}  // namespace

void enqueue_make_scales(const StepMemory& memory, const ScaleMemory& scales,
                         const ScaleRules& rules, ScalesFrom from) {
  if (scales.num_blocks == 0) return;
  const int grid = grid_blocks(scales.num_blocks);
  if (from == ScalesFrom::state) return launch(inverse_kernel, grid, block_threads, scales);
  switch (rules.scaling.recipe) {
    case ScaleRecipe::current:
    case ScaleRecipe::blockwise: {
      const ScaleOfCurrent recipe{current_scale(current_of(rules.scaling, rules.param_dtype))};
      return launch(scales_kernel<ScaleOfCurrent>, grid, block_threads, memory, scales, recipe);
    }
    case ScaleRecipe::mxfp8: {
      const ScaleOfMxfp8 recipe{mxfp8_exponent(fp8_of(rules.param_dtype))};
      return launch(scales_kernel<ScaleOfMxfp8>, grid, block_threads, memory, scales, recipe);
    }
    case ScaleRecipe::delayed:
      return make_history_scales(memory, scales, rules);
  }
}

}  // namespace zeroproof::cuda::device
