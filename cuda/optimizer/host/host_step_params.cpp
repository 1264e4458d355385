// How parameters are made from masters on the host: casts, their random words, and the fused pass.

#include <algorithm>

#include "cuda/host/base/stream_copy.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/optimizer/host/host_step.hpp"

namespace zeroproof::cuda {

namespace {

/// Elements [begin, begin + numel) of everything that is there.
host::FusedState part_of(const host::FusedState& state, std::int64_t begin, std::int64_t numel) {
  const auto part = [&](Span<float> whole) {
    return whole.empty() ? whole
                         : whole.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(numel));
  };
  return {part(state.master), part(state.exp_avg), part(state.exp_avg_sq), part(state.max_exp_avg_sq),
          part(state.momentum_buffer)};
}

}  // namespace

template <class Body>
void HostStep::for_draws(const Piece& piece, const Body& body) const {
  if (setup_.placement.empty()) return body(piece);
  const TensorPlacement& place = setup_.placement[static_cast<std::size_t>(piece.tensor)];
  if (place.row_numel == place.row_stride) return body(piece);
  for (std::int64_t begin = 0; begin < piece.numel;) {
    const Piece row = piece.part(begin, place.row_numel - (piece.tensor_begin + begin) % place.row_numel);
    body(row);
    begin += row.numel;
  }
}

void HostStep::update_fused() {
  host::FusedOptions options = host::fused_options(setup_.hyper);
  // Of all blocks of the shard together, wherever their masters lie.
  options.stream = host::streams_past_caches(grad_->numel() * num_bytes(setup_.param_dtype));
  options.casts = scaled_.empty();
  const bool collects = !scaled_.empty() && scaled_.front()->collects();
  if (collects)
    for (const auto& cast : scaled_) cast->begin_collecting();
  const auto update = [&](const Exec& exec, const host::FusedOptions& with, const Piece& piece) {
    host::fused_update(exec, with, steps_.scalars(piece), clip_coef_[clip_group(piece)], grad_of(piece),
                       state_of(piece), with.casts ? params_of(piece) : TensorView{});
    if (collects)
      for (const auto& cast : scaled_) cast->collect(exec, piece);
  };
  const auto alike = [&](const Piece& a, const Piece& b) {
    return steps_.alike(a, b) && rounded_alike(a, b) && clipped_alike(a, b);
  };
  updated().run_joined(setup_.exec, alike, [&](const Exec& exec, const Piece& piece) {
    if (!steps_.updated(piece)) return;
    if (setup_.param_rounding == ParamRounding::nearest) return update(exec, options, piece);
    for_draws(piece, [&](const Piece& row) {
      host::FusedOptions drawn = options;
      drawn.draw = draw(row, 1);
      update(exec, drawn, row);
    });
  });
  steps_.advance();
}

void HostStep::update_tiles() {
  host::FusedOptions options = host::fused_options(setup_.hyper);
  options.stream = false;  // a tile is small, and read again in the same pass
  options.casts = scaled_.empty();
  const auto update = [&](const Exec& exec, const Piece& piece, const host::FusedState& state) {
    if (!fused_) {
      const auto* grad = static_cast<const float*>(grad_of(piece).data);
      return update_by_rule(ops_, exec, setup_.hyper, steps_.scalars(piece),
                            {grad, static_cast<std::size_t>(piece.numel)}, state);
    }
    host::FusedOptions with = options;
    if (setup_.param_rounding == ParamRounding::nearest) {
      return host::fused_update(exec, with, steps_.scalars(piece), clip_coef_[clip_group(piece)],
                                grad_of(piece), state, with.casts ? params_of(piece) : TensorView{});
    }
    for_draws(piece, [&](const Piece& row) {
      with.draw = draw(row, 1);
      host::fused_update(exec, with, steps_.scalars(row), clip_coef_[clip_group(row)], grad_of(row),
                         part_of(state, row.local_begin - piece.local_begin, row.numel), params_of(row));
    });
  };
  store_updates([&](const Piece& piece) { return steps_.updated(piece); }, update);
  steps_.advance();
}

StateTiles::Round HostStep::round_masters(std::uint64_t updates_ahead) const {
  return [this, updates_ahead](const Exec& exec, const Piece& piece, Span<const float> values,
                               Span<bf16> master) {
    if (setup_.param_rounding == ParamRounding::nearest) return ops_.cast_to_bf16(exec, values, master);
    for_draws(piece, [&](const Piece& row) {
      const auto at = static_cast<std::size_t>(row.local_begin - piece.local_begin);
      const auto count = static_cast<std::size_t>(row.numel);
      ops_.stochastic_cast_to_bf16(exec, draw(row, updates_ahead), values.subspan(at, count),
                                   master.subspan(at, count));
    });
  };
}

RoundingDraw HostStep::draw(const Piece& piece, std::uint64_t updates_ahead) const {
  const auto tensor = static_cast<std::size_t>(piece.tensor);
  const bool local = setup_.placement.empty();
  const std::int64_t index = local ? piece.global_begin : setup_.placement[tensor].global(piece.tensor_begin);
  return {setup_.seed, steps_.applied(piece) + updates_ahead, static_cast<std::uint64_t>(index)};
}

void HostStep::cast_piece(const Exec& exec, const Piece& piece) {
  if (setup_.state_formats.master == MasterFormat::bf16) {  // it has been rounded
    std::ranges::copy(bf16_master_of(piece), params_as<bf16>(piece).begin());
    return;
  }
  if (setup_.param_rounding == ParamRounding::nearest) {
    visit_param_format(setup_.param_dtype, [&](auto format) {
      using T = typename decltype(format)::type;
      ops_.narrow(exec, state_of(piece).master, params_as<T>(piece));
    });
    return;
  }
  for_draws(piece, [&](const Piece& row) {
    ops_.stochastic_cast_to_bf16(exec, draw(row, 0), state_of(row).master, params_as<bf16>(row));
  });
}

bool HostStep::rounded_alike(const Piece& a, const Piece& b) const {
  if (setup_.param_rounding == ParamRounding::nearest) return true;
  // Neighbours on a TP rank need not be neighbours in the undistributed model.
  return setup_.placement.empty() && steps_.applied(a) == steps_.applied(b);
}

void HostStep::cast_loaded(const FullState& state) {
  if (scaled_.empty()) return cast_pieces();
  for (const auto& cast : scaled_) cast->load(state);
}

void HostStep::cast() {
  for (const auto& cast : scaled_) cast->cast([this](std::int64_t tensor) { return steps_.updated(tensor); });
  if (!fused_ && scaled_.empty()) cast_pieces();  // the fused update has stored the parameters
}

void HostStep::cast_pieces() {
  const auto alike = [&](const Piece& a, const Piece& b) { return rounded_alike(a, b); };
  updated().run_joined(setup_.exec, alike,
                       [&](const Exec& exec, const Piece& piece) { cast_piece(exec, piece); });
}

}  // namespace zeroproof::cuda
