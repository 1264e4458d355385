#include "cuda/optimizer/rank_layout.hpp"

#include "common/base/error.hpp"
#include "cuda/optimizer/optimizer_checks.hpp"

namespace zeroproof::cuda {
namespace {

/// What only the host's step supports.
void require_on_device(const OptimizerSetup& setup) {
  if (!traits_of(setup.hyper.rule).matrices) return;
  ZP_CHECK(setup.state_formats.plain() && !setup.offload.on(), ErrorCode::invalid_argument,
           "the rule muon on a device with offloaded state, or state or master not in fp32",
           "only the step on the host makes the momentum of matrices from them",
           "use fp32 in device memory, or the optimizer in the space host");
  ZP_CHECK(setup.matrix_tensor_parallel == MatrixTensorParallel::duplicated,
           ErrorCode::invalid_argument, "matrix_tensor_parallel is distributed on a device",
           "only the step on the host exchanges partial folds of matrices",
           "use duplicated, or the optimizer in the space host");
}

OptimizerSetup adapt(OptimizerSetup setup, Space space) {
  validate(setup);
  if (space == Space::device) require_on_device(setup);
  if (space == Space::device) setup.windows = Windows::off;
  return setup;
}

std::unique_ptr<MatrixExchange> exchange_of(const OptimizerSetup& setup) {
  if (!traits_of(setup.hyper.rule).matrices) return nullptr;
  return std::make_unique<MatrixExchange>(setup, gather_matrix_parts(setup));
}

}  // namespace

RankLayout::RankLayout(const OptimizerSetup& given, Space space,
                       const std::optional<CommGroups>& groups)
    : setup(adapt(given, space)),
      comm_groups(groups.value_or(CommGroups{setup.comm, setup.replicas, setup.tp})),
      ranges(state_ranges(setup)),
      pieces(setup.layout->pieces(ranges)),
      plans(plan_buckets(setup)),
      split(setup.offload.on() ? std::make_unique<StateSplit>(setup, ranges) : nullptr),
      matrices(exchange_of(setup)) {}

std::vector<Piece> RankLayout::resident_pieces() const {
  return cuda::resident_pieces(*setup.layout, ranges, split.get());
}

std::int64_t RankLayout::resident_numel() const {
  return split ? split->resident_numel() : total_numel(ranges);
}

}  // namespace zeroproof::cuda
