#include "verification/cases/case.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "common/base/error.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/recipes.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<std::string_view, num_statuses> status_names = {
    "pass", "fail", "tampered", "mistrusted", "skipped", "error", "crashed", "hung"};

std::optional<Implementation> parse_implementation(const std::string& text) {
  for (const Implementation implementation : all_implementations) {
    if (name(implementation) == text) return implementation;
  }
  return std::nullopt;
}

/// "threads:1+3"
WorldSpec hosts_of(const std::string& text, const std::string& prefix) {
  WorldSpec world{WorldSpec::Kind::threads, 0};
  std::stringstream list(text.substr(prefix.size()) + "+");
  for (std::string ranks; std::getline(list, ranks, '+');) {
    const auto size = number_after(ranks, "");
    ZP_CHECK(size && *size >= 1 && *size <= 4096, ErrorCode::config,
             "world '" + text + "' has a host without a usable number of ranks",
             "the ranks of each host are counted", "use 1 to 4096 for each, as in threads:1+3");
    world.hosts.push_back(static_cast<int>(*size));
    world.size += world.hosts.back();
  }
  ZP_CHECK(world.size <= 4096, ErrorCode::config,
           "world '" + text + "' has " + std::to_string(world.size) + " ranks",
           "they are threads of one process", "use at most 4096");
  return world;
}

}  // namespace

std::string_view name(Status status) { return status_names[static_cast<std::size_t>(status)]; }

std::string_view name(Implementation implementation) {
  if (implementation.foreign) return "plugin";
  if (implementation.graphs) return "device-graph";
  if (implementation.space == Space::device)
    return implementation.fused ? "device-fused" : "device";
  return implementation.fused ? "host-fused" : "host";
}

std::string_view name(Mode mode) {
  constexpr std::array<std::string_view, all_modes.size()> names = {"lockstep", "free", "whole"};
  return names[static_cast<std::size_t>(mode)];
}

std::string WorldSpec::id() const {
  constexpr std::array<const char*, 4> prefixes = {"", "threads:", "mpi:", "nccl:"};
  if (kind == Kind::self) return "self";
  std::string ranks;
  for (const int on_host : hosts) ranks += (ranks.empty() ? "" : "+") + std::to_string(on_host);
  return prefixes[static_cast<std::size_t>(kind)] + (ranks.empty() ? std::to_string(size) : ranks);
}

WorldSpec parse_world(const std::string& text) {
  if (text == "self") return {};
  for (const auto& [prefix, kind] :
       {std::pair{"threads:", WorldSpec::Kind::threads}, std::pair{"mpi:", WorldSpec::Kind::mpi},
        std::pair{"nccl:", WorldSpec::Kind::nccl}}) {
    if (text.rfind(prefix, 0) != 0) continue;
    if (kind == WorldSpec::Kind::threads && text.find('+') != std::string::npos)
      return hosts_of(text, prefix);
    const auto size = number_after(text, prefix);
    ZP_CHECK(size && *size >= 1 && *size <= 4096, ErrorCode::config,
             "world '" + text + "' has no usable size", "the size is the number of ranks",
             "use 1 to 4096, as in " + std::string(prefix) + "4");
    return {kind, static_cast<int>(*size)};
  }
  // "4" or "thread:4": the rest may be the size of a known kind
  const std::size_t colon = text.find(':');
  const std::string size = colon == std::string::npos ? text : text.substr(colon + 1);
  const std::string kind = colon == std::string::npos
                               ? "threads"
                               : nearest(text.substr(0, colon), {"threads", "mpi", "nccl"});
  const bool sized = !kind.empty() && number_after(size, "").value_or(0) >= 1;
  const std::string otherwise =
      sized ? "did you mean " + kind + ":" + size + "?" : "use self, threads:N, mpi:N or nccl:N";
  fail(ErrorCode::config, "world '" + text + "' does not exist", "a world is how ranks run",
       suggestion(text, {"self"}, otherwise));
}

std::string CaseSpec::id() const {
  ParallelConfig shown = place;
  if (world.kind == WorldSpec::Kind::nccl)
    shown.transport = Transport::copies;  // the world already determines the transport
  return workload + "/" + recipe + "/" + std::string(name(implementation)) + "/stage" +
         std::to_string(stage) + "/" + world.id() + "/" + std::string(name(dtype)) + "/" +
         std::string(name(mode)) + "/bucket:" + std::to_string(bucket_numel) +
         "/omp:" + std::to_string(omp_threads) + shown.id();
}

std::optional<CaseSpec> parse_case_id(const std::string& id) {
  const std::vector<std::string> parts = id_parts(id);
  if (parts.size() < num_id_parts || !is_recipe(parts[1])) return std::nullopt;
  const auto implementation = parse_implementation(parts[2]);
  const auto stage = number_after(parts[3], "stage");
  const auto bucket = number_after(parts[7], "bucket:");
  const auto threads = number_after(parts[8], "omp:");
  const auto mode = std::ranges::find(all_modes, parts[6], [](Mode one) { return name(one); });
  if (!implementation || !stage || !bucket || !threads || mode == all_modes.end())
    return std::nullopt;
  if (!implementation->runs_in(*mode)) return std::nullopt;
  constexpr std::int64_t largest =
      1 << 20;  // beyond any stage or number of threads; validate() checks the real limits
  if (*stage > largest || *threads > largest) return std::nullopt;
  CaseSpec spec;
  spec.workload = parts[0];
  spec.recipe = parts[1];
  spec.implementation = *implementation;
  spec.stage = static_cast<int>(*stage);
  spec.world = parse_world(parts[4]);
  spec.dtype = parse_param_dtype(parts[5]);
  spec.mode = *mode;
  spec.bucket_numel = *bucket;
  spec.omp_threads = static_cast<int>(*threads);
  for (std::size_t i = num_id_parts; i < parts.size(); ++i) {
    if (!spec.place.read(parts[i])) return std::nullopt;
  }
  if (spec.world.kind == WorldSpec::Kind::nccl) spec.place.transport = Transport::nccl;
  spec.place.grid_of(spec.world.size);
  RunConfig check = main_config();
  check.stages = {spec.stage};
  check.bucket_numels = {spec.bucket_numel};
  check.omp_threads = {spec.omp_threads};
  validate(check);
  return spec;
}

std::string_view exactness_class(BufferId buffer) {
  switch (buffer) {
    case BufferId::applied_steps:
    case BufferId::found_inf:
    case BufferId::loss_scaler:
    case BufferId::norm_limbs:
    case BufferId::grad_amax:
    case BufferId::tensor_steps:
    case BufferId::amax:
    case BufferId::amax_history:
    case BufferId::column_amax:
      return "integer";
    case BufferId::grad_sum:
    case BufferId::grad_norm:
      return "ordered";
    default:
      return "bitwise";
  }
}

}  // namespace zeroproof::verification
