#include "cuda/optimizer/params/param_scales.hpp"

#include "common/step/scaled_params.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<Piece> runs_of(const TensorBlocks& blocks, const std::vector<Piece>& pieces) {
  std::vector<Piece> runs;
  for (const Piece& piece : pieces) {
    for (const BlockRun& run : blocks.runs({piece})) {
      const std::int64_t at = run.local_begin - piece.local_begin;
      runs.push_back({run.tensor, run.first, piece.global_begin + at, run.local_begin, run.numel});
    }
  }
  return runs;
}

bool exist(const OptimizerSetup& setup, ParamScales::Of of) {
  return has_scales(setup.param_dtype) &&
         (of == ParamScales::Of::params || has_own_columns(setup.scaling));
}

/// Names of the arrays, those of columns after those of parameters.
struct Names {
  BufferId amax, scale, scale_inv;
};
constexpr Names names_of(bool columns) {
  if (columns) return {BufferId::column_amax, BufferId::column_scale, BufferId::column_scale_inv};
  return {BufferId::amax, BufferId::param_scale, BufferId::param_scale_inv};
}

}  // namespace

ParamScales::ParamScales(const OptimizerSetup& setup, Of of, const std::vector<FlatRange>& ranges,
                         MemoryLedger& ledger)
    : setup_(setup),
      space_(ledger.space()),
      of_(of),
      on_(exist(setup, of)),
      slots_(on_ && keeps_history(setup.scaling) ? setup.scaling.history : 0),
      blocks_(!on_           ? TensorBlocks()
              : of_columns() ? column_blocks_of(setup)
                             : blocks_of(setup)),
      runs_(on_ ? runs_of(blocks_, setup.layout->pieces(ranges)) : std::vector<Piece>{}),
      loop_(runs_) {
  if (!on_) return;
  const std::int64_t count = blocks_.num_blocks();
  const auto array = [&](std::int64_t numel, DType dtype) {
    return CountedBuffer(ledger, MemoryClass::state, numel, dtype);
  };
  amax_ = array(count, DType::u32);
  history_ = array(count * slots_, DType::u32);
  scale_ = array(count, DType::fp32);
  scale_inv_ = array(count, DType::fp32);
  // Kernels write the maximum to the words that ranks join.
  collected_ = array(count, space_.kind == Space::device ? DType::u64 : DType::u32);
  if (setup.offload.on()) elsewhere_.resize(count);
}

std::vector<float> ParamScales::on_host(const GuardedBuffer& array) const {
  std::vector<float> values(array.numel());
  space_.to_host(values.data(), array.data(), array.view().num_bytes());
  space_.wait();
  return values;
}

bool ParamScales::load(const FullState& state) {
  if (recompute_elsewhere_) recompute_elsewhere_();
  const bool loaded = !of_columns() && has_loaded_scales(state, setup_, blocks_);
  const std::vector<float> ones(loaded ? 0 : scale().size(), 1.0F);
  const Span<const float> scales = loaded ? state.param_scale : ones;
  space_.from_host(scale().data(), scales.data(), static_cast<std::int64_t>(scales.size_bytes()));
  space_.fill(amax().data(), 0, static_cast<std::int64_t>(amax().size_bytes()));
  const auto history_bytes = static_cast<std::int64_t>(history().size_bytes());
  if (loaded && history_bytes > 0) {
    space_.from_host(history().data(), state.amax_history.data(), history_bytes);
  } else {
    space_.fill(history().data(), 0, history_bytes);
  }
  return loaded;
}

std::vector<ExposedBuffer> ParamScales::exposed() const {
  if (!on_) return {};
  const auto [amax, scale, scale_inv] = names_of(of_columns());
  std::vector<ExposedBuffer> buffers = {{amax, amax_->view(), {}}};
  if (slots_ > 0) buffers.push_back({BufferId::amax_history, history_->view(), {}});
  buffers.push_back({scale, scale_->view(), {}});
  buffers.push_back({scale_inv, scale_inv_->view(), {}});
  return buffers;
}

std::string_view ParamScales::damaged_guard() const {
  const auto [amax, scale, scale_inv] = names_of(of_columns());
  const std::pair<BufferId, const CountedBuffer*> all[] = {{amax, &amax_},
                                                           {amax, &collected_},
                                                           {BufferId::amax_history, &history_},
                                                           {scale, &scale_},
                                                           {scale_inv, &scale_inv_}};
  for (const auto& [id, array] : all) {
    if (!(*array)->guards_intact()) return name(id);
  }
  return {};
}

}  // namespace zeroproof::cuda
