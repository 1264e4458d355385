#include "verification/comm/comm_case.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/device_capabilities.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<std::string_view, 10> op_names = {
    "all_to_all",     "all_gather",    "all_gather-in-place", "broadcast", "all_reduce-sum",
    "all_reduce-max", "all_reduce-or", "reduce_scatter",      "split",     "shared_window"};
constexpr std::array<std::string_view, 3> parts_names = {"equal", "unequal", "empty"};
constexpr std::array<std::string_view, 2> places_names = {"adjacent", "scattered"};

template <class Choice, std::size_t count>
Choice choice_of(const std::array<std::string_view, count>& names, const std::string& text) {
  return static_cast<Choice>(std::ranges::find(names, text) - names.begin());
}

/// "self", "threads:3", "threads:1+2", "mpi:3", "copies:3" or "nccl:3".
void read_ranks(const std::string& text, CommCaseSpec& spec) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const bool copies = kind == "copies", nccl = kind == "nccl";
  spec.transport = copies ? CommTransport::copies
                   : nccl ? CommTransport::nccl
                          : CommTransport::host;
  if (copies || nccl) {
    const auto size = number_after(text, kind + ":");
    ZP_CHECK(size && *size >= 1 && *size <= 64, ErrorCode::config,
             "'" + text + "' has no usable number of ranks", "they are threads on one host",
             "use 1 to 64, as in " + kind + ":3");
    spec.world = {WorldSpec::Kind::threads, static_cast<int>(*size)};
    return;
  }
  spec.world = parse_world(text);
  ZP_CHECK(spec.world.size <= 64, ErrorCode::config, "'" + text + "' has more than 64 ranks",
           "every rank computes the parts of all others", "use at most 64");
}

/// Inside an MPI job its ranks. Three over NCCL, or two where it accepts no more.
std::vector<std::string> usual_ranks() {
  if (inside_mpi_job()) return {"mpi:" + std::to_string(mpi_job_size())};
  CommCaseSpec three;
  read_ranks("nccl:3", three);
  return {"self", "threads:3", "threads:1+2", "copies:3",
          obstacle(three).empty() ? "nccl:3" : "nccl:2"};
}

/// NCCL has no bitwise_or; other collectives of all transports differ in shared_window alone, which
/// is null where ranks share no memory.
bool offers(CommTransport transport, CommOp op) {
  return transport != CommTransport::nccl || op != CommOp::all_reduce_or;
}

/// Parts of an all_reduce have one length on all ranks.
bool offers(CommOp op, CommParts parts) {
  const bool one_length =
      op == CommOp::all_reduce_sum || op == CommOp::all_reduce_max || op == CommOp::all_reduce_or;
  return !one_length || parts != CommParts::unequal;
}

CommCaseSpec case_of(const std::string& id) {
  const std::vector<std::string> parts = id_parts(id);
  CommCaseSpec spec;
  spec.op = choice_of<CommOp>(op_names, parts[1]);
  read_ranks(parts[2], spec);
  spec.parts = choice_of<CommParts>(parts_names, parts[3]);
  spec.places = choice_of<CommPlaces>(places_names, parts[4]);
  ZP_CHECK(offers(spec.transport, spec.op), ErrorCode::config,
           "'" + id + "' has no such collective", "NCCL reduces integers by sum and max",
           "use other ranks");
  return spec;
}

std::vector<std::string> usual_ids() {
  std::vector<std::string> usual;
  for (const std::string_view op : op_names) {
    for (const std::string& ranks : usual_ranks()) {
      for (const std::string_view parts : parts_names) {
        for (const std::string_view places : places_names) {
          CommCaseSpec spec;
          spec.op = choice_of<CommOp>(op_names, std::string(op));
          read_ranks(ranks, spec);
          spec.parts = choice_of<CommParts>(parts_names, std::string(parts));
          spec.places = choice_of<CommPlaces>(places_names, std::string(places));
          const bool placed =
              spec.op != CommOp::shared_window || spec.places == CommPlaces::adjacent;
          if (placed && offers(spec.transport, spec.op) && offers(spec.op, spec.parts) &&
              obstacle(spec).empty())
            usual.push_back(spec.id());
        }
      }
    }
  }
  return usual;
}

IdGrammar comm_grammar() {
  using Parts = std::vector<std::string>;
  const auto among = [](const auto& names) {
    return [&names](const Parts&) { return Parts(names.begin(), names.end()); };
  };
  return {{"suite", [](const Parts&) { return Parts{"comm"}; }},
          {"collective", among(op_names)},
          {"ranks", [](const Parts&) { return Parts{}; }},
          {"lengths",
           [](const Parts& before) {
             Parts lengths(parts_names.begin(), parts_names.end());
             const auto op = choice_of<CommOp>(op_names, before[1]);
             std::erase_if(lengths, [&](const std::string& length) {
               return !offers(op, choice_of<CommParts>(parts_names, length));
             });
             return lengths;
           }},
          {"places", [](const Parts& before) {
             const bool window = before[1] == op_names.back();
             return Parts(places_names.begin(), places_names.end() - (window ? 1 : 0));
           }}};
}

}  // namespace

std::string_view name(CommOp op) { return op_names[static_cast<std::size_t>(op)]; }

std::string CommCaseSpec::ranks() const {
  if (transport == CommTransport::host) return world.id();
  return (transport == CommTransport::copies ? "copies:" : "nccl:") + std::to_string(world.size);
}

std::string CommCaseSpec::id() const {
  return "comm/" + std::string(name(op)) + "/" + ranks() + "/" +
         std::string(parts_names[static_cast<std::size_t>(parts)]) + "/" +
         std::string(places_names[static_cast<std::size_t>(places)]);
}

std::vector<CommCaseSpec> comm_cases(const std::string& pattern) {
  std::vector<CommCaseSpec> cases;
  std::ranges::transform(select_ids(pattern, comm_grammar(), usual_ids), std::back_inserter(cases),
                         case_of);
  return cases;
}

std::string obstacle(const CommCaseSpec& spec) {
  if (spec.transport == CommTransport::host) {
    const bool here = !spec.world.has_processes() || mpi_job_size() == spec.world.size;
    return here ? ""
                : "its ranks are processes, to be started with mpirun -n " +
                      std::to_string(spec.world.size);
  }
  if (!device_answers()) return cuda::device::device_info().detail;
  if (spec.transport != CommTransport::nccl) return "";
  return nccl_obstacle(cuda::device::device_info().simulated ? 1 : spec.world.size);
}

}  // namespace zeroproof::verification
