#pragma once
// One case: one candidate in one world, judged against the reference.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/dtype.hpp"
#include "common/base/space.hpp"
#include "common/step/phase.hpp"
#include "verification/cases/parallel_config.hpp"

namespace zeroproof::verification {

enum class Status : std::uint8_t {
  pass,
  fail,
  tampered,
  mistrusted,
  skipped,
  error,
  crashed,
  hung
};
inline constexpr int num_statuses = 8;
std::string_view name(Status status);

/// Lock-step: before every phase the inputs of the candidate are set to those of the reference.
/// Free: both sides run without correction, and the first difference is reported. Whole: as free,
/// but the candidate makes each step in one call (DistributedOptimizer::step without an observer),
/// and is compared between steps; for fused candidates, which do not change G.
enum class Mode : std::uint8_t { lockstep, free, whole };
inline constexpr std::array all_modes = {Mode::lockstep, Mode::free, Mode::whole};
std::string_view name(Mode mode);

/// A candidate: the production step in a space, phase by phase or in fused passes, on a device also replayed as graphs.
struct Implementation {
  Space space = Space::host;
  bool fused = false;
  bool graphs = false;
  bool foreign = false;  ///< updates come from a plug-in

  /// A replayed graph has no phases to stop at; a candidate that runs in phases exposes no G after
  /// the step. A plug-in's whole step is a separate entry.
  bool runs_in(Mode mode) const { return mode == Mode::whole ? fused || foreign : !graphs; }

  static const Implementation host, host_fused, device, device_fused, device_graph, plugin;
  auto operator<=>(const Implementation&) const = default;
};
inline constexpr Implementation Implementation::host = {Space::host, false};
inline constexpr Implementation Implementation::host_fused = {Space::host, true};
inline constexpr Implementation Implementation::device = {Space::device, false};
inline constexpr Implementation Implementation::device_fused = {Space::device, true};
inline constexpr Implementation Implementation::device_graph = {Space::device, true, true};
inline constexpr Implementation Implementation::plugin = {Space::host, false, false, true};
inline constexpr std::array all_implementations = {
    Implementation::host,         Implementation::host_fused,   Implementation::device,
    Implementation::device_fused, Implementation::device_graph, Implementation::plugin};

/// As flags and case ids spell it: "host", "host-fused", "device", "device-fused", "device-graph", "plugin".
std::string_view name(Implementation implementation);

struct WorldSpec {
  /// nccl: MPI processes with one device each, which communicate through NCCL.
  enum class Kind : std::uint8_t { self, threads, mpi, nccl } kind = Kind::self;
  int size = 1;
  /// Threads: the numbers of ranks on hosts of which no two share memory; empty: one host.
  std::vector<int> hosts = {};

  bool has_processes() const { return kind == Kind::mpi || kind == Kind::nccl; }
  std::string id() const;  ///< "self", "threads:4", "threads:1+3", "mpi:2", "nccl:2"
  bool operator==(const WorldSpec&) const = default;
};

/// Errors (ErrorCode::config): an unknown kind, or a size outside 1 to 4096.
WorldSpec parse_world(const std::string& text);

struct CaseSpec {
  std::string workload = "byte_gpt";
  std::string recipe = "adamw";  ///< a variation of the step (recipes.hpp)
  Implementation implementation = Implementation::host;
  int stage = 0;
  WorldSpec world;
  DType dtype = DType::bf16;
  Mode mode = Mode::lockstep;
  std::int64_t bucket_numel = 262144;
  int omp_threads = 0;
  ParallelConfig place;

  /// Layer by layer: in stage 3, and where communication overlaps with layers.
  bool layered() const { return stage == 3 || place.overlap; }

  /// "byte_gpt/adamw/host/stage2/threads:4/bf16/lockstep/bucket:262144/omp:1", then the non-default
  /// parts of its parallel configuration.
  std::string id() const;
};

/// Parts of a complete id, without those of its parallel configuration.
inline constexpr std::size_t num_id_parts = 9;

/// The case of an id; empty if the text is no complete id. Errors (ErrorCode::config): values that
/// no case has.
std::optional<CaseSpec> parse_case_id(const std::string& id);

/// bitwise, ordered or integer: a property of the operation (CONTRACT, last section).
std::string_view exactness_class(BufferId buffer);

}  // namespace zeroproof::verification
