#include <algorithm>
#include <array>
#include <bit>

#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/host/stream_copy.hpp"
#include "verification/bench/measure/values.hpp"
#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

StepScalars next_scalars(RankState& state, bool clips, std::int64_t micro_batches) {
  return host::step_scalars(step_hyper(clips), steps_before + ++state.steps, log2_loss_scale, micro_batches);
}

TensorView bf16_view(Span<std::uint16_t> params) { return {params.data(), DType::bf16, numel(params)}; }

Span<std::uint16_t> own_part(const RankData& data, Span<std::uint16_t> params) {
  return params.subspan(static_cast<std::size_t>(data.shard.begin),
                        static_cast<std::size_t>(data.shard.numel()));
}

void library_step(RankData& data) {
  data.library.reduce_scatter(data.leaf.span(), data.scattered.span());
  const StepScalars scalars = next_scalars(data.scattered_state, false, data.comm.world_size());
  host::fused_update({}, host::fused_options(step_hyper(false)), scalars, 1, data.scattered.span(),
                     data.scattered_state.views(), bf16_view(own_part(data, data.scattered_params.span())));
  data.library.all_gather(data.scattered_params.span());
}

void replicated_step(RankData& data) {
  data.library.all_reduce(data.leaf.span(), data.reduced.span());
  const StepScalars scalars = next_scalars(data.reduced_state, false, data.comm.world_size());
  host::fused_update({}, host::fused_options(step_hyper(false)), scalars, 1, data.reduced.span(),
                     data.reduced_state.views(), bf16_view(data.reduced_params.span()));
}

void window_step(const RankData& data, const WindowNodes& nodes, RankState& state, int copy) {
  nodes.window->fence();
  const Span<std::uint16_t> params = own_part(data, data.shared_params(copy));
  host::FusedOptions options = host::fused_options(step_hyper(false));
  options.stream = host::streams_past_caches(numel(params) * 2);
  host::window_update({}, *nodes.plan, options, next_scalars(state, false, nodes.micro_batches), 1,
                      nodes.nodes, state.views(), bf16_view(params));
  nodes.window->fence();
}

/// The limbs of all ranks, with the number of ranks that found a value that is not finite.
NormLimbs sum_limbs(Communicator& comm, NormLimbs limbs, bool& found_inf) {
  using Words = std::array<std::uint64_t, 23>;
  static_assert(sizeof(NormLimbs) == sizeof(Words));
  host::grad_norm_normalise(limbs);
  std::array<std::uint64_t, 24> words{};
  const auto own = std::bit_cast<Words>(limbs);
  std::copy(own.begin(), own.end(), words.begin());
  words.back() = found_inf ? 1 : 0;
  comm.all_reduce(words, IntegerReduce::sum);
  found_inf = words.back() != 0;
  Words all{};
  std::copy(words.begin(), words.end() - 1, all.begin());
  limbs = std::bit_cast<NormLimbs>(all);
  host::grad_norm_normalise(limbs);
  return limbs;
}

void clipped_step(RankData& data) {
  const WindowNodes& nodes = data.one_each;
  nodes.window->fence();
  const StepScalars scalars = next_scalars(data.clipped_state, true, nodes.micro_batches);
  NormLimbs limbs;
  bool found_inf =
      host::window_reduce({}, *nodes.plan, scalars.inv_scale, nodes.nodes, data.clipped_sum.span(), limbs);
  limbs = sum_limbs(data.comm, limbs, found_inf);
  if (!found_inf) {
    const OptimizerHyper hyper = step_hyper(true);
    host::fused_update({}, host::fused_options(hyper), scalars,
                       host::clip_coef(host::grad_norm_finish(limbs), hyper.max_norm),
                       data.clipped_sum.span(), data.clipped_state.views(),
                       bf16_view(own_part(data, data.shared_params(clipped_copy))));
  }
  nodes.window->fence();
}

}  // namespace

void add_library_rows(std::vector<Row>& rows, RankData& data) {
  rows.push_back({"library scatter + gather", 0, data.numel, [&data] { library_step(data); }});
  rows.push_back({"library all-reduce", 0, data.numel, [&data] { replicated_step(data); }});
}

void add_product_rows(std::vector<Row>& rows, RankData& data, const ProductSteps& products) {
  for (const auto& product : products) {
    rows.push_back({row_name(product->variant()), 0, data.numel, [step = product.get()] { step->step(); }});
  }
}

void add_window_rows(std::vector<Row>& rows, RankData& data) {
  const auto add = [&](const char* name, double num_bytes, std::function<void()> body) {
    rows.push_back({name, num_bytes, data.numel, std::move(body), {}, {}, {"window pass"}});
  };
  add("windows, M = R", window_bytes(data.one_each.nodes.size()),
      [&data] { window_step(data, data.one_each, data.window_state, window_copy); });
  add("windows, M = 2 R + 1", window_bytes(data.more.nodes.size()),
      [&data] { window_step(data, data.more, data.more_state, more_copy); });
  // G is stored once and read once more.
  add("windows, M = R, clipped", window_bytes(data.one_each.nodes.size()) + 8,
      [&data] { clipped_step(data); });
}

std::vector<Comparison> rank_comparisons(bool warm) {
  constexpr const char* library = "library scatter + gather";
  const double goal = warm ? 2 : 4;
  std::vector<Comparison> all = {
      {"windows against library", "windows, M = R", library, goal, true},
      {"windows, M = 2 R + 1, against library", "windows, M = 2 R + 1", library, goal, true},
      {"windows with clipping against library", "windows, M = R, clipped", library, 0, true},
      {"windows against library all-reduce", "windows, M = R", "library all-reduce", 0, true}};
  for (const ProductVariant& variant : product_variants()) {
    const std::string product = row_name(variant);
    all.push_back({"clipped windows against " + product, "windows, M = R, clipped", product, 0, true});
    all.push_back({product + ", against library", product, library, 0, true});
    all.push_back({product + ", against all-reduce", product, "library all-reduce", 0, true});
  }
  return all;
}

}  // namespace zeroproof::verification::bench
