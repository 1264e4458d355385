#include <algorithm>
#include <cstring>

#include "cuda/host/isa.hpp"
#include "verification/bench/measure/limit_loops.hpp"
#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

/// As many elements as the window step folds at a time.
constexpr std::int64_t block_numel = 4096;

/// Bytes of the window step, half of them read and half written, as one large copy after another.
void copy_bytes(const RankData& data, double num_bytes) {
  const std::size_t most = data.copied.num_bytes();
  for (auto left = static_cast<std::size_t>(num_bytes / 2); left > 0;) {
    const std::size_t piece = std::min(left, most);
    std::memcpy(data.copied.data(), data.leaf.data(), piece);
    left -= piece;
  }
}

/// The accesses of window_update with next to no arithmetic; the state keeps its bits.
void touch_shapes(const RankData& data, const LimitLoops& loops, bool streamed) {
  constexpr std::uint32_t keep_bits = 0;
  const auto step = streamed ? loops.step_streamed : loops.step;
  const auto& nodes = data.one_each.nodes;
  const RankState& state = data.window_state;
  std::uint16_t* half = data.shared_params(limit_copy).data() + data.shard.begin;
  for (std::int64_t b = 0; b < data.shard.numel(); b += block_numel) {
    const std::int64_t count = std::min(block_numel, data.shard.numel() - b);
    for (std::size_t k = 1; k < nodes.size(); ++k) {
      volatile std::uint32_t used = loops.read(nodes[k].data() + b, count);
      static_cast<void>(used);
    }
    step(keep_bits, nodes[0].data() + b, state.master.data() + b, state.exp_avg.data() + b,
         state.exp_avg_sq.data() + b, half + b, count);
  }
}

}  // namespace

double window_bytes(std::size_t num_nodes) { return 4.0 * static_cast<double>(num_nodes) + 24 + 2; }

void add_rank_limit_rows(std::vector<Row>& rows, RankData& data) {
  const double per_param = window_bytes(data.one_each.nodes.size());
  const auto add = [&](const std::string& name, double num_bytes, std::function<void()> body,
                       const std::string& shape) {
    rows.push_back({name, num_bytes, data.numel, std::move(body), {}, shape});
  };
  add(
      "limit memcpy", per_param,
      [&data, per_param] { copy_bytes(data, per_param * static_cast<double>(data.shard.numel())); }, "copy");
  for (const Isa isa : cuda::host::supported_isas()) {
    const std::string name = "limit window pass " + std::string(cuda::host::name(isa));
    const LimitLoops& loops = limit_loops(isa);
    add(
        name, per_param, [&data, &loops] { touch_shapes(data, loops, false); }, "window pass");
    add(
        name + " nt", per_param, [&data, &loops] { touch_shapes(data, loops, true); }, "window pass");
  }
  add(
      "two fences", 0,
      [&data] {
        data.one_each.window->fence();
        data.one_each.window->fence();
      },
      "fences");
  add(
      "MPI_Barrier", 0, [&data] { data.library.barrier(); }, "barrier");
}

}  // namespace zeroproof::verification::bench
