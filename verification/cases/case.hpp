#pragma once
// One case: one candidate in one world, judged against the reference.

#include <array>
#include <compare>
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

/// Lock-step: before every phase the candidate's inputs are the reference's. Free: both run on, the first
/// difference is the report. Whole: as free, but the candidate makes each step by itself (DistributedOptimizer::step
/// without a observer), and is looked at between steps; for fused candidates, which leave G as it is.
enum class Mode : std::uint8_t { lockstep, free, whole };
inline constexpr std::array all_modes = {Mode::lockstep, Mode::free, Mode::whole};
std::string_view name(Mode mode);

/// A candidate: the production step in a space, phase by phase or in fused passes, on a device also replayed as graphs.
struct Implementation {
  Space space = Space::host;
  bool fused = false;
  bool graphs = false;
  bool foreign = false;  ///< updates come from a plug-in

  /// A step that is replayed has no phases to stop at; one in phases keeps no G to look at in the end. A plug-in's
  /// whole step is an entry of its own.
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
  /// nccl: processes as those of mpi are, with a device each and transport of NCCL between them.
  enum class Kind : std::uint8_t { self, threads, mpi, nccl } kind = Kind::self;
  int size = 1;

  bool has_processes() const { return kind == Kind::mpi || kind == Kind::nccl; }
  std::string id() const;  ///< "self", "threads:4", "mpi:2", "nccl:2"
  bool operator==(const WorldSpec&) const = default;
};

/// Errors (ErrorCode::config): an unknown kind, or a size that is not 1 to 4096.
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

  /// Layer by layer: always in stage 3, and wherever communication overlaps with layers.
  bool layered() const { return stage == 3 || place.overlap; }

  /// "byte_gpt/adamw/host/stage2/threads:4/bf16/lockstep/bucket:262144/omp:1", then what of its place is not the
  /// default
  std::string id() const;
};

/// The case an id names, or nothing if the text is not a complete id. Errors (ErrorCode::config): values no
/// case has.
std::optional<CaseSpec> parse_case_id(const std::string& id);

/// bitwise, ordered or integer: a property of the operation (CONTRACT, last section).
std::string_view exactness_class(BufferId buffer);

}  // namespace zeroproof::verification
