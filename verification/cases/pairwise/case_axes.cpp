// The axes that a case id has parts for.

#include <algorithm>

#include "verification/cases/pairwise/axis.hpp"
#include "verification/cases/pairwise/empty_rank.hpp"
#include "verification/cases/recipes.hpp"

namespace zeroproof::verification {
namespace {

bool always(const CoveredRun&) { return true; }
bool several_ranks(const CoveredRun& run) { return run.spec.world.size > 1; }
bool offloaded(const CoveredRun& run) { return run.spec.place.offload.on(); }

/// The optimizer instances have several ranks each, which share a state.
bool sharded(const CoveredRun& run) {
  const int tp = run.spec.place.grid ? run.spec.place.grid->tp : 1;
  return run.spec.world.size > tp * run.spec.place.instances;
}

template <class Member, class Value>
Axis exactly(const std::string& name, const std::string& key, const std::string& flag,
             Member member, const std::vector<std::pair<std::string, Value>>& values,
             std::function<bool(const CoveredRun&)> applies = always) {
  Axis axis{name, {key}, {flag}, {}, std::move(applies), true};
  for (const auto& choice : values) {
    const Value value = choice.second;  // clang 14 captures no structured binding
    axis.values.push_back({choice.first, [=](CoveredRun& run) { member(run.spec) = value; },
                           [=](const CoveredRun& run) { return member(run.spec) == value; }});
  }
  return axis;
}

/// The values of an enumeration.
template <class Member>
Axis named(const std::string& name, const std::string& key, const std::string& flag, Member member,
           std::function<bool(const CoveredRun&)> applies = always) {
  using Choice = std::remove_cvref_t<decltype(member(std::declval<CaseSpec&>()))>;
  std::vector<std::pair<std::string, Choice>> values;
  const Span<const std::string_view> names = names_of(Choice{});
  for (std::size_t i = 0; i < names.size(); ++i)
    values.emplace_back(names[i], static_cast<Choice>(i));
  return exactly(name, key, flag, member, values, std::move(applies));
}

/// The rule is that of the recipe settings are added to.
Axis rule() {
  Axis axis{"rule", {"optimizer.rule"}, {"--recipe"}, {}, always, true};
  const Span<const std::string_view> names = names_of(UpdateRule{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string recipe(names[i]);
    axis.values.push_back({recipe, [=](CoveredRun& run) { run.spec.recipe = recipe; },
                           [=](const CoveredRun& run) {
                             return run.config.optimizer.rule == static_cast<UpdateRule>(i);
                           }});
  }
  return axis;
}

Axis implementation() {
  std::vector<std::pair<std::string, Implementation>> values;
  for (const Implementation implementation : all_implementations)
    values.emplace_back(name(implementation), implementation);
  Axis axis = exactly(
      "implementation", "", "--impl", [](auto& spec) -> auto& { return spec.implementation; },
      values);
  axis.keys.clear();
  return axis;
}

Axis mode() {
  std::vector<std::pair<std::string, Mode>> values;
  for (const Mode mode : all_modes) values.emplace_back(name(mode), mode);
  Axis axis = exactly(
      "mode", "", "--mode", [](auto& spec) -> auto& { return spec.mode; }, values);
  axis.keys.clear();
  return axis;
}

Axis world() {
  std::vector<std::pair<std::string, WorldSpec>> values;
  for (const char* text : {"self", "threads:2", "threads:3", "threads:4", "threads:6", "threads:8",
                           "mpi:2", "mpi:3"}) {
    values.emplace_back(text, parse_world(text));
  }
  return exactly(
      "world", "run.worlds", "--world", [](auto& spec) -> auto& { return spec.world; }, values);
}

/// Ranks of one direction of the grid; the remaining factor of the world is the number of data
/// ranks.
Axis grid_axis(const std::string& name, int ProcessGrid::*direction) {
  Axis axis{name, {"run.grids"}, {"--grid"}, {}, several_ranks, true};
  for (const int ranks : {1, 2, 4}) {
    axis.values.push_back({std::to_string(ranks),
                           [=](CoveredRun& run) {
                             std::optional<ProcessGrid>& grid = run.spec.place.grid;
                             if (!grid && ranks == 1) return;
                             if (!grid) grid = ProcessGrid{};
                             (*grid).*direction = ranks;
                             grid->dp = std::max(1, run.spec.world.size / (grid->cp * grid->tp));
                           },
                           [=](const CoveredRun& run) {
                             const std::optional<ProcessGrid>& grid = run.spec.place.grid;
                             return (grid ? (*grid).*direction : 1) == ranks;
                           }});
  }
  return axis;
}

/// No setting chooses it: it follows from the model, the world and the layout.
Axis empty_rank() {
  Axis axis{"empty_rank",
            {},
            {},
            {},
            [](const CoveredRun& run) {
              return run.spec.stage > 0 && sharded(run); },
            true};
  for (const bool empty : {false, true}) {
    axis.values.push_back({empty ? "yes" : "no", [](CoveredRun&) {},
                           [=](const CoveredRun& run) { return has_empty_rank(run) == empty; }});
  }
  return axis;
}

}  // namespace

std::vector<Axis> case_axes() {
  const auto place = [](auto member) {
    return [member](auto& spec) -> auto& { return member(spec.place); };
  };
  const auto dealt_out = [](const CoveredRun& run) {
    return several_ranks(run) && run.config.micro_batches > 1;
  };
  const auto wired = [](const CoveredRun& run) {
    return several_ranks(run) && run.spec.implementation.space == Space::device;
  };
  const auto whole_on_ranks = [](const CoveredRun& run) {
    return run.spec.stage == 3 && sharded(run);
  };
  std::vector<Axis> table = {
      rule(),
      implementation(),
      mode(),
      exactly<decltype([](auto& s) -> auto& { return s.dtype; }), DType>("dtype", "run.dtypes",
                                                                         "--dtype", {},
                                                                         {{"bf16", DType::bf16},
                                                                          {"fp16", DType::fp16},
                                                                          {"fp32", DType::fp32},
                                                                          {"e4m3", DType::e4m3},
                                                                          {"e5m2", DType::e5m2}}),
      exactly<decltype([](auto& s) -> auto& { return s.stage; }), int>(
          "stage", "run.stages", "--stage", {}, {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}}),
      world(),
      grid_axis("cp", &ProcessGrid::cp),
      grid_axis("tp", &ProcessGrid::tp),
      exactly<decltype([](auto& s) -> auto& { return s.place.instances; }), int>(
          "instances", "run.instances", "--instances", {}, {{"1", 1}, {"2", 2}, {"3", 3}},
          several_ranks),
      named("order", "run.orders", "--order", place([](auto& p) -> auto& { return p.order; }),
            dealt_out),
      named("layout", "run.layouts", "--layout", place([](auto& p) -> auto& { return p.layout; }),
            sharded),
      named("sum", "run.grad_sums", "--sum", place([](auto& p) -> auto& { return p.grad_sum; })),
      named("windows", "run.windows", "--windows",
            place([](auto& p) -> auto& { return p.windows; }), several_ranks),
      named("transport", "run.wires", "--transport",
            place([](auto& p) -> auto& { return p.transport; }), wired),
      exactly<decltype([](auto& s) -> auto& { return s.place.persistent_numel; }), std::int64_t>(
          "persistent", "run.persistent_numel", "--persistent", {},
          {{"0", 0}, {"37", 37}, {"1000000", 1000000}}, whole_on_ranks),
      exactly<decltype([](auto& s) -> auto& { return s.place.overlap; }), bool>(
          "overlap", "run.overlap", "--overlap", {}, {{"off", false}, {"on", true}}),
      exactly<decltype([](auto& s) -> auto& { return s.bucket_numel; }), std::int64_t>(
          "bucket", "run.bucket_numels", "--bucket", {},
          {{"1024", 1024}, {"4096", 4096}, {"262144", 262144}}),
      empty_rank(),
      exactly<decltype([](auto& s) -> auto& { return s.place.offload.fraction; }), double>(
          "offload", "offload.fractions", "--offload", {}, {{"0", 0}, {"0.5", 0.5}, {"1", 1}}),
      named("offload_order", "offload.orders", "--offload-order",
            place([](auto& p) -> auto& { return p.offload.order; }), offloaded),
      named("offload_place", "offload.places", "--offload-place",
            place([](auto& p) -> auto& { return p.offload.place; }), offloaded),
      exactly<decltype([](auto& s) -> auto& { return s.place.offload.chunk_numel; }), std::int64_t>(
          "offload_chunk", "offload.chunk_numels", "--offload-chunk", {},
          {{"37", 37}, {"1024", 1024}, {"262144", 262144}}, offloaded),
      exactly<decltype([](auto& s) -> auto& { return s.place.offload.overlap; }), bool>(
          "offload_overlap", "offload.overlaps", "--offload-overlap", {},
          {{"on", true}, {"off", false}}, offloaded),
      exactly<decltype([](auto& s) -> auto& { return s.place.offload.grads; }), bool>(
          "offload_grads", "offload.grads", "--offload-grads", {}, {{"off", false}, {"on", true}},
          offloaded),
      exactly<decltype([](auto& s) -> auto& { return s.omp_threads; }), int>(
          "threads", "run.omp_threads", "--threads", {}, {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}}),
  };
  return table;
}

}  // namespace zeroproof::verification
