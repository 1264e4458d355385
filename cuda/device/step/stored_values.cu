// Stores outside updates (R25): fragments of shared blocks, loaded values, and parameters of bf16
// masters.

#include "cuda/device/step/stored_master.cuh"

namespace zeroproof::cuda::device {

namespace {

ZP_KERNEL fragments_kernel(StepMemory memory, StoredMemory stored) {
  if (memory.state->halt != 0U || memory.found->skipped != 0U) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / warp_lanes;
  const std::int64_t warp =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / warp_lanes;
  for (std::int64_t f = warp; f < stored.num_fragments; f += warps) {
    const StateFragment& fragment = stored.fragments[f];
    if (!has_gradient(memory, fragment.tensor)) continue;
    for (int number = 0; number < most_stored_buffers; ++number) {
      const StoredBuffer& buffer = stored.buffers[number];
      if (buffer.codes == nullptr || !is_scaled(buffer.format)) continue;
      const auto amax = static_cast<std::uint32_t>(buffer.collected[fragment.word]);
      const float scale = state_scale(buffer.format, amax);
      if (lane == 0) buffer.scale_inv[fragment.scale] = 1.0F / scale;
      const float* const waiting = buffer.waiting + fragment.waits_at;
      for (int i = lane; i < fragment.numel; i += warp_lanes) {
        const LaneElements at{fragment.local_begin + i, 0, warp_lanes, 1};
        store_codes(buffer, at, {{waiting[i]}}, scale);
      }
    }
  }
}

template <class Master>
struct StoreLoaded {
  StepMemory memory;
  StoredMemory stored;
  LoadedValues values;
  Master master;

  ZP_DEVICE bool starts() const { return true; }
  ZP_DEVICE bool enter(const StepPiece& piece) {
    master.cast.enter(memory, piece);
    return true;
  }

  ZP_DEVICE static Pack<float> loaded(const float* from, const LaneElements& at) {
    Pack<float> values{};
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k)
      if (k < at.count) values.v[k] = from[at.i + at.apart * k];
    return values;
  }

  ZP_DEVICE void block(const BlockPart& block, const LaneElements& at) const {
    master.store(at, loaded(values.master, at));
    for (int number = 0; number < most_stored_buffers; ++number) {
      if (values.buffers[number] == nullptr) continue;
      const Pack<float> of_buffer = loaded(values.buffers[number], at);
      if (values.are_codes[number]) {
        store_codes(stored.buffers[number], at, of_buffer, 1.0F);
      } else {
        store_block(stored, number, block, at, of_buffer);
      }
    }
  }
};

/// param = master, bit for bit.
struct CopyMasters {
  StepMemory memory;
  StoredMemory stored;

  ZP_DEVICE bool starts() const { return memory.state->halt == 0U; }
  ZP_DEVICE bool enter(const StepPiece& /*piece*/) { return true; }
  ZP_DEVICE void block(const BlockPart& /*block*/, const LaneElements& at) const {
    store_halves(static_cast<std::uint16_t*>(memory.param), at,
                 load_halves(static_cast<const std::uint16_t*>(stored.master), at));
  }
};

}  // namespace

void enqueue_store_fragments(const StepMemory& memory, const StoredMemory& stored) {
  if (stored.num_fragments == 0) return;
  launch(fragments_kernel, grid_blocks(stored.num_fragments * warp_lanes), block_threads, memory,
         stored);
}

void enqueue_store_loaded(const StepMemory& memory, const StoredMemory& stored,
                          const StepRules& rules, std::int64_t piece, const LoadedValues& values) {
  StoredMemory one = stored;
  one.pieces = stored.pieces + piece;
  one.num_pieces = 1;
  visit_master<false>(memory, one, rules, [&](auto master) {
    run_stored_pass(StoreLoaded<decltype(master)>{memory, one, values, master},
                    with_stored(PackPhase(), one));
  });
}

void enqueue_copy_masters(const StepMemory& memory, const StoredMemory& stored) {
  const PackPhase phase = PackPhase()
                              .with(static_cast<const std::uint16_t*>(stored.master))
                              .with(static_cast<const std::uint16_t*>(memory.param));
  run_stored_pass(CopyMasters{memory, stored}, phase);
}

}  // namespace zeroproof::cuda::device
