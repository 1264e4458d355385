// Faults of state and master in fewer bits (R25): replaced phase update, one piece of a tensor at a
// time.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;
namespace host = cuda::host;

/// Reads the stored values, updates them, and stores them with its own scales. Correct as it is: a
/// derived class changes one part.
class StoredUpdate : public HostStep {
 public:
  using HostStep::HostStep;

 protected:
  void update() override {
    Exec serial = setup_.exec;
    serial.num_threads = 1;
    std::vector<Values> all;
    for (const Piece& piece : setup_.layout->pieces(ranges_)) {
      if (!is_read(piece)) continue;
      Values values = read(serial, piece);
      if (steps_.updated(piece)) {
        const auto* grad = static_cast<const float*>(grad_of(piece).data);
        cuda::update_by_rule(ops_, serial, setup_.hyper, steps_.scalars(piece),
                             {grad, static_cast<std::size_t>(piece.numel)}, values.state());
      }
      all.push_back(std::move(values));
    }
    const BlockAmax amax = joined(all);
    for (const Values& values : all) store(serial, values, amax);
    steps_.advance();
  }

  /// Whether a tensor is read, and stored again.
  virtual bool is_read(const Piece& piece) const { return steps_.updated(piece); }
  /// scale_inv used to read the codes of a block.
  virtual float scale_inv(StateSlot slot, const Piece& of_block) const {
    return state_.scale(slot, block_of(of_block));
  }
  /// The value of a code, before it is multiplied by the scale.
  virtual float meaning(float code) const { return code; }
  /// The scale used to store a block.
  virtual float new_scale(StateSlot slot, const Piece& /*of_block*/, std::uint32_t amax) const {
    if (amax == 0 || amax >= infinite) return 1;
    return std::min(largest_of(state_.format(slot)) / std::bit_cast<float>(amax),
                    std::numeric_limits<float>::max());
  }

  static std::int64_t block_of(const Piece& piece) {
    return piece.global_begin / state_block_numel;
  }

 private:
  static constexpr std::uint32_t infinite = 0x7F800000U;

  /// The fp32 values of a piece; empty for a buffer that is not kept.
  struct Values {
    Piece piece;
    std::vector<float> master;
    PerSlot<std::vector<float>> kept;

    host::FusedState state() {
      return {master, per_slot([&](StateSlot slot) { return Span<float>(kept[slot]); })};
    }
    Span<const float> of(StateSlot slot, const Piece& stretch) const {
      return Span<const float>(kept[slot])
          .subspan(stretch.local_begin - piece.local_begin, stretch.numel);
    }
  };
  /// Largest magnitudes of the blocks of the undistributed model, buffer after buffer.
  using BlockAmax = std::vector<std::uint64_t>;

  bool has_scales_at(StateSlot slot) const {
    return state_.kept(slot) && has_scales(state_.format(slot));
  }
  std::size_t num_blocks() const { return setup_.layout->padded_numel() / state_block_numel; }
  std::size_t word_of(StateSlot slot, std::int64_t block) const {
    return static_cast<std::size_t>(slot) * num_blocks() + static_cast<std::size_t>(block);
  }

  /// Calls body(stretch) for the parts of a piece, each in one block.
  template <class Body>
  static void for_blocks(const Piece& piece, const Body& body) {
    for (std::int64_t done = 0; done < piece.numel;) {
      const Piece stretch =
          piece.part(done, state_block_numel - (piece.global_begin + done) % state_block_numel);
      body(stretch);
      done += stretch.numel;
    }
  }

  /// Calls body(codes) with the codes of a stretch, by their type.
  template <class Body>
  void visit_codes(StateSlot slot, const Piece& stretch, const Body& body) const {
    const auto at = static_cast<std::size_t>(stretch.local_begin);
    const auto count = static_cast<std::size_t>(stretch.numel);
    const GuardedBuffer& stored = state_[slot];
    switch (state_.format(slot)) {
      case StateFormat::fp32:
        return body(stored.as<float>().subspan(at, count));
      case StateFormat::bf16:
        return body(stored.as<bf16>().subspan(at, count));
      case StateFormat::fp16:
        return body(stored.as<fp16>().subspan(at, count));
      case StateFormat::e4m3:
        return body(stored.as<e4m3>().subspan(at, count));
    }
  }

  Values read(const Exec& exec, const Piece& piece) const {
    const auto count = static_cast<std::size_t>(piece.numel);
    Values values{piece, std::vector<float>(count), {}};
    if (setup_.state_formats.master == MasterFormat::bf16) {
      host::widen_bf16(exec, cuda::part<bf16>(master_, piece), values.master);
    } else {
      std::ranges::copy(cuda::part(master_, piece), values.master.begin());
    }
    for (const StateSlot slot : all_state_slots) {
      if (!state_.kept(slot)) continue;
      values.kept[slot].resize(count);
      for_blocks(piece, [&](const Piece& stretch) {
        const Span<float> x = Span<float>(values.kept[slot])
                                  .subspan(stretch.local_begin - piece.local_begin, stretch.numel);
        visit_codes(slot, stretch, [&](auto codes) { widen(exec, codes, x); });
        if (!has_scales_at(slot)) return;
        const float inv = scale_inv(slot, stretch);
        for (float& value : x) value = meaning(value) * inv;
      });
    }
    return values;
  }

  BlockAmax joined(const std::vector<Values>& all) const {
    BlockAmax amax(all_state_slots.size() * num_blocks(), 0);
    for (const Values& values : all) {
      for (const StateSlot slot : all_state_slots) {
        if (!has_scales_at(slot)) continue;
        for_blocks(values.piece, [&](const Piece& stretch) {
          std::uint64_t& word = amax[word_of(slot, block_of(stretch))];
          for (const float x : values.of(slot, stretch)) {
            const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU;
            word = std::max<std::uint64_t>(word, magnitude > infinite ? 0x7FFFFFFFU : magnitude);
          }
        });
      }
    }
    if (setup_.stage > 0) setup_.comm->all_reduce(amax, IntegerReduce::max);
    return amax;
  }

  void store(const Exec& exec, const Values& values, const BlockAmax& amax) const {
    const Piece& piece = values.piece;
    if (setup_.state_formats.master == MasterFormat::bf16) {
      round_masters(1)(exec, piece, values.master, cuda::part<bf16>(master_, piece));
    } else {
      std::ranges::copy(values.master, cuda::part(master_, piece).begin());
    }
    for (const StateSlot slot : all_state_slots) {
      if (!state_.kept(slot)) continue;
      for_blocks(piece, [&](const Piece& stretch) {
        const Span<const float> x = values.of(slot, stretch);
        std::vector<float> y(x.begin(), x.end());
        if (has_scales_at(slot)) {
          const std::int64_t block = block_of(stretch);
          const float scale =
              new_scale(slot, stretch, static_cast<std::uint32_t>(amax[word_of(slot, block)]));
          state_.scale(slot, block) = 1.0F / scale;
          for (float& value : y) value = value * scale;
        }
        visit_codes(slot, stretch, [&](auto codes) { narrow(exec, y, codes); });
      });
    }
  }

  static void widen(const Exec&, Span<const float> codes, Span<float> x) {
    std::ranges::copy(codes, x.begin());
  }
  static void widen(const Exec& exec, Span<const bf16> codes, Span<float> x) {
    host::widen_bf16(exec, codes, x);
  }
  static void widen(const Exec& exec, Span<const fp16> codes, Span<float> x) {
    host::widen_fp16(exec, codes, x);
  }
  static void widen(const Exec& exec, Span<const e4m3> codes, Span<float> x) {
    host::widen_e4m3(exec, codes, x);
  }
  static void narrow(const Exec&, Span<const float> y, Span<float> codes) {
    std::ranges::copy(y, codes.begin());
  }
  static void narrow(const Exec& exec, Span<const float> y, Span<bf16> codes) {
    host::cast_to_bf16(exec, y, codes);
  }
  static void narrow(const Exec& exec, Span<const float> y, Span<fp16> codes) {
    host::cast_to_fp16(exec, y, codes);
  }
  static void narrow(const Exec& exec, Span<const float> y, Span<e4m3> codes) {
    host::nonfinite_cast_to_e4m3(exec, y, codes);
  }
};

/// Codes of a block are read with the scale of the next block of its tensor.
class NeighboursScale final : public StoredUpdate {
  using StoredUpdate::StoredUpdate;
  float scale_inv(StateSlot slot, const Piece& of_block) const override {
    for (const Piece& piece : setup_.layout->pieces(ranges_)) {
      const std::int64_t next = (block_of(of_block) + 1) * state_block_numel;
      const bool behind = piece.tensor == of_block.tensor && piece.global_begin <= next &&
                          next < piece.global_begin + piece.numel;
      if (behind) return state_.scale(slot, block_of(of_block) + 1);
    }
    return StoredUpdate::scale_inv(slot, of_block);
  }
};

/// The code book has no zero: its smallest codes mean plus and minus half a step.
class NoZero final : public StoredUpdate {
  using StoredUpdate::StoredUpdate;
  float meaning(float code) const override {
    constexpr float half_a_step = 0x1p-10F;  // of e4m3
    return code == 0 ? std::copysign(half_a_step, code) : code;
  }
};

/// Tensors without a gradient are read and stored again like the others.
class RestingStoredAgain final : public StoredUpdate {
  using StoredUpdate::StoredUpdate;
  bool is_read(const Piece& /*piece*/) const override { return true; }
};

/// A block is stored with its old scale.
class ScaleOfLastStep final : public StoredUpdate {
  using StoredUpdate::StoredUpdate;
  float new_scale(StateSlot slot, const Piece& of_block, std::uint32_t /*amax*/) const override {
    return 1.0F / scale_inv(slot, of_block);
  }
};

/// The update uses the random words of the update before it.
class LastDraw final : public HostStep {
 public:
  using HostStep::HostStep;

 private:
  RoundingDraw draw(const Piece& piece, std::uint64_t /*updates_ahead*/) const override {
    return HostStep::draw(piece, 0);
  }
};

}  // namespace

cuda::MakeLocalStep wrong_stored_state(std::string_view fault, const FaultContext& context) {
  struct Row {
    std::string_view fault;
    cuda::MakeLocalStep (*make)(const FaultContext& context);
  };
  constexpr Row rows[] = {{"state-scale-of-neighbour", step_of<NeighboursScale>},
                          {"state-zero-drifts", step_of<NoZero>},
                          {"resting-state-stored-again", step_of<RestingStoredAgain>},
                          {"state-scale-of-last-step", step_of<ScaleOfLastStep>},
                          {"master-drawn-as-last-step", step_of<LastDraw>}};
  for (const Row& row : rows) {
    if (row.fault != fault) continue;
    ZP_CHECK(
        !context.setup.state_formats.plain(), ErrorCode::unavailable,
        "the fault '" + std::string(fault) + "' cannot be planted in state that is kept in fp32",
        "it changes the format of the state",
        "run it with a smaller format, as in --recipe adamw+exp_avg_dtype:e4m3");
    return row.make(context);
  }
  return nullptr;
}

}  // namespace zeroproof::verification
