// The passes over matrices of the rule muon (R28): momentum before Newton-Schulz, the update after
// it.

#include "cuda/device/kernels/layers/row_of.cuh"
#include "cuda/device/kernels/update/muon_element.cuh"
#include "cuda/device/step/param_cast.cuh"
#include "cuda/device/step/step_gradient.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr int momentum_slot = static_cast<int>(StateSlot::exp_avg);

template <class Gradient>
struct MatrixMomentum {
  StepMemory memory;
  Gradient gradient;
  bool nesterov;
  bool updated = false;    // the piece has a gradient
  std::int64_t begin = 0;  // of the piece
  StepScalars scalars{};

  ZP_DEVICE bool starts() const { return memory.state->halt == 0U && memory.found->skipped == 0U; }

  ZP_DEVICE bool enter(const StepPiece& piece) {
    updated = has_gradient(memory, piece.tensor);
    begin = piece.local_begin;
    scalars = memory.scalars[set_of(memory, piece)];
    gradient.enter(scalars, clip_coef_of(memory, piece));
    return true;
  }

  ZP_DEVICE void one(int i) const {
    const std::int64_t at = begin + i;
    if (!updated) {
      memory.matrices.orthogonal[at] = 0.0F;
      return;
    }
    float& exp_avg = memory.slots.values[momentum_slot][at];
    const MuonMoved moved =
        muon_momentum_element(scalars, nesterov, gradient(memory.grad[at]), exp_avg);
    exp_avg = moved.exp_avg;
    memory.matrices.orthogonal[at] = moved.direction;
  }

  ZP_DEVICE void pack(int i) const {
    const std::int64_t at = begin + i;
    if (!updated) {
      store_pack(memory.matrices.orthogonal + at, Pack<float>{});
      return;
    }
    Pack<float> g = load_pack(memory.grad + at);
    Pack<float> m = load_pack(memory.slots.values[momentum_slot] + at);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) {
      const MuonMoved moved = muon_momentum_element(scalars, nesterov, gradient(g.v[k]), m.v[k]);
      m.v[k] = moved.exp_avg;
      g.v[k] = moved.direction;
    }
    store_pack(memory.slots.values[momentum_slot] + at, m);
    store_pack(memory.matrices.orthogonal + at, g);
  }
};

template <class Cast>
struct MatrixUpdate {
  StepMemory memory;
  Cast cast;
  std::int64_t begin = 0;  // of the piece
  StepScalars scalars{};
  float step_size = 0.0F;  // of the whole piece
  StepMatrix matrix{};
  PiecePlace place{};  // with parts

  ZP_DEVICE bool starts() const { return memory.state->halt == 0U && memory.found->skipped == 0U; }

  ZP_DEVICE bool enter(const StepPiece& piece) {
    if (!has_gradient(memory, piece.tensor)) return false;
    begin = piece.local_begin;
    scalars = memory.scalars[set_of(memory, piece)];
    matrix = memory.matrices.tensors[piece.tensor];
    if (matrix.num_parts == 1) {
      step_size = muon_step_size_of(scalars.lr, memory.matrices.parts[matrix.first_part].factor);
    } else {
      place = PiecePlace(piece);
    }
    cast.enter(memory, piece);
    return true;
  }

  /// The step size of the part that has element i of the piece.
  ZP_DEVICE float size_at(int i) const {
    if (matrix.num_parts == 1) return step_size;
    const std::int64_t element = static_cast<std::int64_t>(place.at(i).index) - matrix.begin;
    const std::int64_t row = row_of(element, matrix.columns);
    const std::int64_t along = matrix.by_columns != 0 ? element - row * matrix.columns : row;
    const std::int64_t in_period = along - row_of(along, matrix.period) * matrix.period;
    const StepMatrixPart* part = memory.matrices.parts + matrix.first_part;
    while (part->end <= in_period) ++part;
    return muon_step_size_of(scalars.lr, part->factor);
  }

  ZP_DEVICE void one(int i) const {
    const std::int64_t at = begin + i;
    const float master =
        muon_element(scalars, size_at(i), memory.matrices.orthogonal[at], memory.master[at]);
    memory.master[at] = master;
    cast.one(at, i, master);
  }

  ZP_DEVICE void pack(int i) const {
    const std::int64_t at = begin + i;
    const Pack<float> o = load_pack(memory.matrices.orthogonal + at);
    Pack<float> w = load_pack(memory.master + at);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k)
      w.v[k] = muon_element(scalars, size_at(i + k), o.v[k], w.v[k]);
    store_pack(memory.master + at, w);
    cast.pack(at, i, w);
  }
};

template <class Gradient>
void run_momentum(const StepMemory& memory, const StepRules& rules) {
  run_pass(MatrixMomentum<Gradient>{memory, Gradient::of(rules.hyper), rules.hyper.nesterov},
           memory,
           PackPhase()
               .with(memory.grad)
               .with(memory.slots.values[momentum_slot])
               .with(memory.matrices.orthogonal));
}

}  // namespace

void enqueue_matrix_momentum(const StepMemory& memory, const StepRules& rules, bool fused) {
  fused ? run_momentum<SummedGradient>(memory, rules)
        : run_momentum<ChangedGradient>(memory, rules);
}

void enqueue_matrix_update(const StepMemory& memory, const StepRules& rules, bool fused) {
  const auto run = [&](auto cast) {
    run_pass(MatrixUpdate<decltype(cast)>{memory, cast}, memory,
             cast.phase(PackPhase().with(memory.matrices.orthogonal).with(memory.master)));
  };
  if (!fused || has_scales(rules.param_dtype)) return run(ParamCast<ParamKind::none>{});
  visit_param(memory, rules, run);
}

}  // namespace zeroproof::cuda::device
