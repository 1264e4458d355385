#include "cuda/optimizer/host/scaled_cast.hpp"
#include "cuda/host/operations.hpp"

#include <algorithm>

#include "cuda/optimizer/params/joined_amax.hpp"

namespace zeroproof::cuda {
namespace {

template <class T>
Span<T> blocks_at(Span<T> array, std::int64_t first, std::int64_t count) {
  return array.subspan(first, count);
}

/// Calls f(code{}) with the type of codes.
template <class F>
void visit_code(DType dtype, const F& f) {
  dtype == DType::e5m2 ? f(e5m2{}) : f(e4m3{});
}

}  // namespace

ScaledCast::ScaledCast(const RankShard& shard, const KernelTable& ops)
    : shard_(shard),
      setup_(shard.setup),
      scales_(*shard.scales),
      ops_(ops),
      collected_(scales_.collected().as<std::uint32_t>()) {}

template <class Body>
void ScaledCast::for_runs(const TakesPart& takes_part, const Body& body) const {
  if (shard_.split == nullptr) {
    return scales_.runs().run(setup_.exec, [&](const Exec& exec, const Piece& run) {
      if (takes_part(run.tensor)) body(exec, run);
    });
  }
  shard_.split->resident().run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (!takes_part(piece.tensor)) return;
    scales_.for_runs(piece, [&](const Piece& run) { body(exec, run); });
  });
}

void ScaledCast::load(const FullState& state) {
  is_collected_ = false;
  if (scales_.load(state)) {
    const Span<float> scale = scales_.scale();
    std::ranges::transform(scale, scales_.scale_inv().begin(), [](float s) { return 1.0F / s; });
    return make_codes(every_tensor);
  }
  collect_all(every_tensor);
  join_amax(setup_, collected_);
  make_scales(every_tensor);
  make_codes(every_tensor);
  const bool dequantised = setup_.scaling.initial_master == InitialMaster::dequantised;
  if (dequantised && !scales_.of_columns()) dequantize_masters();
}

void ScaledCast::begin_collecting() {
  std::ranges::fill(collected_, 0U);
  is_collected_ = true;
}

void ScaledCast::collect(const Exec& exec, const Piece& piece) {
  scales_.for_runs(piece, [&](const Piece& run) { collect_run(exec, run); });
}

void ScaledCast::collect_run(const Exec& exec, const Piece& run) {
  ops_.block_amax(exec, scales_.blocks().grid(run.tensor), setup_.scaling.value, run.tensor_begin,
                  master_of(run), scales_.of_tensor(collected_, run.tensor));
}

void ScaledCast::collect_all(const TakesPart& takes_part) {
  const Span<const std::uint32_t> elsewhere = scales_.elsewhere();
  std::ranges::fill(collected_, 0U);
  std::ranges::copy(elsewhere, collected_.begin());
  for_runs(takes_part, [&](const Exec& exec, const Piece& run) { collect_run(exec, run); });
}

void ScaledCast::cast(const TakesPart& takes_part) {
  if (!is_collected_) collect_all(takes_part);
  is_collected_ = false;
  join_amax(setup_, collected_);
  make_scales(takes_part);
  make_codes(takes_part);
}

/// The initial empty history is shifted onto itself, and makes no scale.
void ScaledCast::make_scales(const TakesPart& takes_part) {
  const ParamScaling& scaling = setup_.scaling;
  const DType dtype = setup_.param_dtype;
  const std::int64_t slots = scales_.slots();
  std::ranges::fill(scales_.amax(), 0U);
  std::vector<e8m0> exponents;
  scales_.for_blocks(takes_part, [&](std::int64_t first, std::int64_t count) {
    const Span<std::uint32_t> amax = blocks_at(scales_.amax(), first, count);
    const Span<float> scale = blocks_at(scales_.scale(), first, count);
    const Span<float> scale_inv = blocks_at(scales_.scale_inv(), first, count);
    std::ranges::copy(blocks_at(collected_, first, count), amax.begin());
    switch (scaling.recipe) {
      case ScaleRecipe::current:
      case ScaleRecipe::blockwise:
        return ops_.current_scales(setup_.exec, current_of(scaling, dtype), amax, scale, scale_inv);
      case ScaleRecipe::mxfp8:
        exponents.resize(count);
        ops_.mxfp8_scales(setup_.exec, fp8_of(dtype), amax, exponents, scale);
        return host::widen_e8m0(setup_.exec, exponents, scale_inv);
      case ScaleRecipe::delayed:
        break;
    }
    const Span<std::uint32_t> history = blocks_at(scales_.history(), first * slots, count * slots);
    ops_.delayed_scales(setup_.exec, delayed_of(scaling, dtype), history, scale, scale_inv);
    for (std::size_t i = 0; i < amax.size(); ++i)
      history[i * static_cast<std::size_t>(slots)] = amax[i];
  });
}

void ScaledCast::make_codes(const TakesPart& takes_part) {
  visit_code(setup_.param_dtype, [&](auto code) {
    using T = decltype(code);
    for_runs(takes_part, [&](const Exec& exec, const Piece& run) {
      const BlockQuantization options{scales_.blocks().grid(run.tensor), setup_.scaling.value,
                                      Overflow::saturate};
      ops_.quantize(exec, options, run.tensor_begin, master_of(run),
                    scales_.of_tensor(scales_.scale(), run.tensor), shard_.params.as<T>(run));
    });
  });
}

void ScaledCast::dequantize_masters() {
  visit_code(setup_.param_dtype, [&](auto code) {
    using T = decltype(code);
    for_runs(every_tensor, [&](const Exec& exec, const Piece& run) {
      ops_.dequantize(exec, scales_.blocks().grid(run.tensor), run.tensor_begin,
                      shard_.params.as<T>(run), scales_.of_tensor(scales_.scale_inv(), run.tensor),
                      master_of(run));
    });
  });
}

}  // namespace zeroproof::cuda
