#include <algorithm>
#include <cstring>

#include "cuda/host/base/isa.hpp"
#include "verification/bench/measure/limit_loops.hpp"
#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

/// As many elements as the step adds up at a time.
constexpr std::int64_t block_numel = 4096;

/// Bytes of a step through windows, half of them read and half written, as one large copy after another.
void copy_bytes(const RankData& data, double num_bytes) {
  const std::size_t most = data.copied.num_bytes();
  for (auto left = static_cast<std::size_t>(num_bytes / 2); left > 0;) {
    const std::size_t piece = std::min(left, most);
    std::memcpy(data.copied.data(), data.leaf.data(), piece);
    left -= piece;
  }
}

/// The accesses of a step through windows that need not look at G before it is used, with next to no arithmetic; the
/// state keeps its bits.
void touch_shapes(const RankData& data, const LimitLoops& loops, bool streamed) {
  constexpr std::uint32_t keep_bits = 0;
  const auto step = streamed ? loops.step_streamed : loops.step;
  const RankState& state = data.limit_state;
  std::uint16_t* half = data.shared_params().data() + data.shard.begin;
  for (std::int64_t b = 0; b < data.shard.numel(); b += block_numel) {
    const std::int64_t count = std::min(block_numel, data.shard.numel() - b);
    const std::int64_t at = data.shard.begin + b;
    for (int rank = 1; rank < data.comm.world_size(); ++rank) {
      volatile std::uint32_t used = loops.read(data.shared_leaf(rank).data() + at, count);
      static_cast<void>(used);
    }
    step(keep_bits, data.shared_leaf(0).data() + at, state.master.data() + b, state.exp_avg.data() + b,
         state.exp_avg_sq.data() + b, half + b, count);
  }
}

}  // namespace

double window_bytes(int world_size) { return 4.0 * world_size + 24 + 2; }

void add_rank_limit_rows(std::vector<Row>& rows, RankData& data) {
  const double per_param = window_bytes(data.comm.world_size());
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
        data.window->fence();
        data.window->fence();
      },
      "fences");
  add(
      "MPI_Barrier", 0, [&data] { data.library.barrier(); }, "barrier");
}

}  // namespace zeroproof::verification::bench
