#include <cstring>
#include <memory>
#include <optional>

#include "cuda/device/runtime/graph.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "verification/bench/device/suite.hpp"
#include "verification/bench/device/unordered_norm.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace device = cuda::device;

constexpr std::uint32_t decide_all = device::decide_scalars | device::decide_scaler | device::decide_norm |
                                     device::decide_clip | device::decide_count;

/// The sums of one gradient, which every round has to find again.
class SameSums {
 public:
  void see(const device::StepFound& found) {
    if (!first_) first_ = found;
    same_ = same_ && found.sums[0] == first_->sums[0] &&
            std::memcmp(found.sums, first_->sums, sizeof found.sums) == 0 && found.found_inf == 0;
  }
  bool same() const { return first_ && same_; }

 private:
  std::optional<device::StepFound> first_;
  bool same_ = true;
};

Row pass(const std::string& name, double num_bytes, std::int64_t numel, std::vector<std::string> limits) {
  Row row{name, num_bytes, numel, {}};
  row.limits = std::move(limits);
  return row;
}

void add_passes(DeviceRows& rows, const KernelData& data, const device::Graph& graph, SameSums& sums) {
  rows.add(pass("finite_norm", 4, data.numel(), {"R"}), [&] {
    data.clear_found();
    const double seconds = device_seconds([&] { device::enqueue_finite_norm(data.memory(), data.rules()); });
    sums.see(data.found());
    return seconds;
  });
  rows.add(pass("fused_update", 30, data.numel(), {"4R3W+W2"}), [&] {
    return device_seconds([&] { device::enqueue_fused_update(data.memory(), data.rules()); });
  });
  rows.add(pass("two passes, graph", 34, data.numel(), {"R", "4R3W+W2"}), [&] {
    const double seconds = device_seconds([&] { graph.launch(); });
    sums.see(data.found());
    return seconds;
  });
}

/// A fold of so many leaves, as phase reduce enqueues it.
void add_fold(DeviceRows& rows, const KernelData& data, const cuda::host::PieceLoop& loop, int count) {
  std::vector<TreeNode> nodes;
  std::vector<cuda::NodeValues> leaves;
  for (const std::uint16_t* leaf : data.leaves(count)) {
    nodes.push_back({0, static_cast<std::int64_t>(nodes.size())});
    leaves.push_back(
        cuda::NodeValues::flat({const_cast<std::uint16_t*>(leaf), DType::bf16, data.numel()}, 0));
  }
  const auto plan = std::make_shared<const cuda::host::FoldPlan>(nodes);
  const std::string number = std::to_string(count);
  rows.add(pass("fold of " + number, 2.0 * count + 4, data.numel(), {number + "xR2W4"}), [&loop, &data, plan,
                                                                                          leaves] {
    const cuda::NodeValues sum = cuda::NodeValues::packed({data.scratch(), DType::fp32, data.numel()});
    return device_seconds([&] { cuda::device_space().fold(loop, *plan, leaves, sum); });
  });
}

}  // namespace

Group measure_kernels(std::int64_t numel, int rounds, std::vector<Check>& checks) {
  const KernelData data(numel, 8);
  const device::Graph graph([&] {
    data.clear_found();
    device::enqueue_finite_norm(data.memory(), data.rules());
    device::enqueue_decide(data.memory(), data.rules(), decide_all, false);
    device::enqueue_fused_update(data.memory(), data.rules());
  });
  const cuda::host::PieceLoop loop(data.layout().pieces({{0, data.layout().padded_numel()}}));
  const UnorderedNorm unordered(static_cast<const float*>(data.grad()), numel);
  SameSums sums;
  DeviceRows rows;
  add_limit_rows(rows, data);
  add_passes(rows, data, graph, sums);
  for (const int count : {2, 4, 8}) add_fold(rows, data, loop, count);
  if (UnorderedNorm::available()) {
    rows.add(pass("CUB, fp32 squares", 4, numel, {"R"}),
             [&] { return device_seconds([&] { unordered.enqueue(); }); });
  }
  rows.measure(rounds);
  checks.push_back({"finite_norm found the same sums in every round", sums.same(), std::to_string(numel)});
  Group group{"kernels, " + std::to_string(numel) + " elements of one tensor", std::move(rows.rows)};
  group.judge_row("finite_norm, of the read limit's speed", "finite_norm", 0.90);
  group.judge_ratio("finite_norm, of CUB's unordered sum's time", "finite_norm", "CUB, fp32 squares", 1.10,
                    false);
  group.judge_row("fused_update, of its loop's speed", "fused_update", 0.92);
  group.judge_row("two passes by a graph, of 34 bytes' time", "two passes, graph", 1.08);
  for (const char* count : {"2", "4", "8"}) {
    const std::string fold = std::string("fold of ") + count;
    group.judge_row(fold + ", of its loop's speed", fold, 0.90);
  }
  return group;
}

}  // namespace zeroproof::verification::bench
