#include "verification/bench/offload/offload_rows.hpp"

#include <algorithm>
#include <memory>

#include "common/comm/self.hpp"
#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/offload/moved_bytes.hpp"
#include "verification/bench/product/product_step.hpp"
#include "verification/bench/product/twin_step.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr std::int64_t state_bytes = 12;  ///< of an element: master and two moments

std::int64_t file_bytes(const ProductCase& what) {
  return state_bytes * static_cast<std::int64_t>(what.offload.fraction *
                                                 static_cast<double>(layout_of(what).padded_numel()));
}

OffloadResult measure_one(const ProductCase& what, int rounds, WorkerTeam& team) {
  OffloadResult result{what, {}, {}, {}, {}};
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  const std::unique_ptr<Communicator> self = make_self_communicator();
  ProductCase nothing_elsewhere = what;
  nothing_elsewhere.offload = {};
  std::unique_ptr<ProductStep> plain, step;
  {
    const TwinStep first(what, layout.padded_numel(), leaves, team);
    plain = std::make_unique<ProductStep>(nothing_elsewhere, layout, leaves, first.first_state(), *self);
    step = std::make_unique<ProductStep>(what, layout, leaves, first.first_state(), *self);
  }
  std::unique_ptr<MovedBytes> bytes;
  std::vector<Row> rows(2);
  rows[0].body = [&] { plain->step(); };
  rows[1].body = [&] { step->step(); };
  if (what.offload.place == OffloadPlace::file) {
    bytes = std::make_unique<MovedBytes>(what.offload.folder, file_bytes(what),
                                         state_bytes * what.offload.chunk_numel, what.threads);
    rows.emplace_back().body = [&] { bytes->move(); };
  }
  measure(rows, rounds);
  result.plain = rows[0].seconds;
  result.step = rows[1].seconds;
  if (bytes != nullptr) result.moved = rows[2].seconds;
  const ContractResult wanted = contract_steps(
      {layout, what.micro_batches, what.num_leaves(), step->steps(), true, what.grad_dtype, what.threads});
  result.checks.push_back({"step with state elsewhere = contract", step->as_contract(wanted), what.text()});
  result.checks.push_back(
      {"an infinite gradient changes nothing elsewhere", step->skips_infinity(wanted), what.text()});
  return result;
}

}  // namespace

double OffloadResult::moved_bytes() const {
  return moved.empty() ? 0 : 2 * static_cast<double>(file_bytes(what));
}

std::vector<double> OffloadResult::step_to_floor() const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < step.size(); ++i) {
    ratios.push_back(step[i] / (moved.empty() ? plain[i] : std::max(plain[i], moved[i])));
  }
  return ratios;
}

std::vector<OffloadResult> measure_offload(ProductCase what, int rounds, WorkerTeam& team,
                                           const std::string& folder) {
  std::vector<ProductCase> cases;
  for (const OffloadPlace place : {OffloadPlace::host, OffloadPlace::file}) {
    for (const double fraction : {0.5, 1.0}) {
      what.offload.fraction = fraction;
      what.offload.place = place;
      what.offload.folder = folder;
      require_possible(what);  // before the long part
      cases.push_back(what);
    }
  }
  std::vector<OffloadResult> results;
  for (const ProductCase& one : cases) results.push_back(measure_one(one, rounds, team));
  return results;
}

}  // namespace zeroproof::verification::bench
