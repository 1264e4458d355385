// Masters to 8-bit codes with the scales of their blocks, and back (R22, R24).

#include "cuda/device/step/scale_walk.cuh"

namespace zeroproof::cuda::device {

namespace {

struct E4m3Code {
  ZP_HOST_DEVICE static std::uint8_t of(float value) { return e4m3_bits(value); }
  ZP_HOST_DEVICE static float widened(std::uint8_t code) { return float_of_e4m3(code); }
};
struct E5m2Code {
  ZP_HOST_DEVICE static std::uint8_t of(float value) { return e5m2_bits(value); }
  ZP_HOST_DEVICE static float widened(std::uint8_t code) { return float_of_e5m2(code); }
};

template <class F>
void visit_code(DType dtype, const F& f) {
  dtype == DType::e5m2 ? f(E5m2Code{}) : f(E4m3Code{});
}

/// Calls pass.one(blocks, piece, i) and pass.pack(blocks, piece, i) for the elements of a piece.
template <class Pass>
ZP_DEVICE void walk_codes(const ScalePiece& piece, const PackPhase& phase, const Pass& pass) {
  const PieceBlocks blocks(piece);
  const int numel = static_cast<int>(piece.numel);
  const int head = phase.head(piece.local_begin, numel);
  const int packed = (numel - head) / step_pack_numel * step_pack_numel;
  const int thread = static_cast<int>(threadIdx.x), stride = static_cast<int>(blockDim.x);
  for (int i = step_pack_numel * thread; i < packed; i += step_pack_numel * stride)
    pass.pack(blocks, piece, head + i);
  for (int i = thread; i < numel - packed; i += stride)
    pass.one(blocks, piece, i < head ? i : i + packed);
}

template <class Code, class Value>
struct Quantize {
  StepMemory memory;
  ScaleMemory scales;
  PackPhase phase;

  ZP_DEVICE static std::uint8_t code_of(float master, float scale) {
    return Code::of(Value::of(master) * scale);
  }

  ZP_DEVICE void one(const PieceBlocks& blocks, const ScalePiece& piece, int i) const {
    const std::int64_t local = piece.local_begin + i;
    static_cast<std::uint8_t*>(memory.param)[local] =
        code_of(memory.master[local], scales.scale[blocks.of(i)]);
  }

  /// Four codes in one word, the earlier ones in the lower bits.
  ZP_DEVICE void pack(const PieceBlocks& blocks, const ScalePiece& piece, int i) const {
    const std::int64_t local = piece.local_begin + i;
    const Pack<float> master = load_pack(memory.master + local);
    const std::int64_t block = blocks.of_pack(i);
    const bool in_one_block = block >= 0;
    const float scale = in_one_block ? scales.scale[block] : 0.0F;
    std::uint32_t word = 0;
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) {
      const float own = in_one_block ? scale : scales.scale[blocks.of(i + k)];
      word |= static_cast<std::uint32_t>(code_of(master.v[k], own)) << (8 * k);
    }
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(memory.param) + local) = word;
  }

  ZP_DEVICE void run() const {
    for_scale_pieces(memory, scales,
                     [this](const ScalePiece& piece) { walk_codes(piece, phase, *this); });
  }
};

/// Only at the beginning, so one element at a time is enough.
template <class Code>
struct Dequantize {
  StepMemory memory;
  ScaleMemory scales;

  ZP_DEVICE void run() const {
    for_scale_pieces(memory, scales, [this](const ScalePiece& piece) {
      const PieceBlocks blocks(piece);
      const int numel = static_cast<int>(piece.numel);
      for (int i = static_cast<int>(threadIdx.x); i < numel; i += static_cast<int>(blockDim.x)) {
        const std::int64_t local = piece.local_begin + i;
        const std::uint8_t code = static_cast<const std::uint8_t*>(memory.param)[local];
        memory.master[local] = Code::widened(code) * scales.scale_inv[blocks.of(i)];
      }
    });
  }
};

template <class Pass>
ZP_KERNEL codes_kernel(Pass pass) {
  pass.run();
}

template <class Pass>
void launch_codes(const Pass& pass) {
  if (pass.scales.num_pieces == 0) return;
  launch(codes_kernel<Pass>, grid_blocks(pass.scales.num_pieces * block_threads), block_threads,
         pass);
}

}  // namespace

void enqueue_make_codes(const StepMemory& memory, const ScaleMemory& scales,
                        const ScaleRules& rules) {
  const PackPhase phase =
      PackPhase().with(memory.master).with(static_cast<const std::uint8_t*>(memory.param));
  visit_code(rules.param_dtype, [&](auto code) {
    visit_value(rules.scaling.value, [&](auto value) {
      launch_codes(Quantize<decltype(code), decltype(value)>{memory, scales, phase});
    });
  });
}

void enqueue_dequantize_masters(const StepMemory& memory, const ScaleMemory& scales,
                                const ScaleRules& rules) {
  visit_code(rules.param_dtype, [&](auto code) {
    launch_codes(Dequantize<decltype(code)>{memory, scales});
  });
}

}  // namespace zeroproof::cuda::device
