// How parameters are made from masters on the host: casts, their random words, and the fused pass.

#include "cuda/host/fused_step.hpp"
#include "cuda/host/stream_copy.hpp"
#include "cuda/zero/host_step.hpp"

namespace zeroproof::cuda {
void HostStep::update_fused() {
  host::FusedOptions options = host::fused_options(setup_.hyper);
  options.stream =
      host::streams_past_caches(master_->numel() * num_bytes(setup_.param_dtype));  // of all blocks together
  options.casts = scaled_ == nullptr;
  if (scaled_) scaled_->begin_collecting();
  const auto update = [&](const Exec& exec, const host::FusedOptions& with, const Piece& piece) {
    host::fused_update(exec, with, steps_.scalars(piece), clip_coef_[clip_group(piece)], grad_of(piece),
                       state_of(piece), with.casts ? params_of(piece) : TensorView{});
    if (scaled_) scaled_->collect(exec, piece);
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

RoundingDraw HostStep::draw(const Piece& piece, std::uint64_t updates_ahead) const {
  const auto tensor = static_cast<std::size_t>(piece.tensor);
  const bool local = setup_.placement.empty();
  const std::int64_t index = local ? piece.global_begin : setup_.placement[tensor].global(piece.tensor_begin);
  return {setup_.seed, steps_.applied(piece) + updates_ahead, static_cast<std::uint64_t>(index)};
}

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

void HostStep::cast_piece(const Exec& exec, const Piece& piece) {
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

void HostStep::cast_loaded(const FullState& state) { scaled_ ? scaled_->load(state) : cast_pieces(); }

void HostStep::cast() {
  if (scaled_) return scaled_->cast([this](std::int64_t tensor) { return steps_.updated(tensor); });
  if (!fused_) cast_pieces();  // the fused update has stored the parameters
}

void HostStep::cast_pieces() {
  const auto alike = [&](const Piece& a, const Piece& b) { return rounded_alike(a, b); };
  updated().run_joined(setup_.exec, alike,
                       [&](const Exec& exec, const Piece& piece) { cast_piece(exec, piece); });
}

}  // namespace zeroproof::cuda
