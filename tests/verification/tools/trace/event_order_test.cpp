// The events of zeroproof trace --json: everything happens once, after what it needs, on the ranks
// that do it.

#include <doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/comm/threads.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/trace/event_order.hpp"
#include "verification/tools/trace/trace.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using Values = nlohmann::json;

template <class Use>
void for_traces(const Use& use) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world = 1; world <= most_traced_ranks; ++world) {
      TraceSettings settings;
      settings.stage = stage;
      settings.world_size = world;
      settings.micro_batches = 2 * world + 1;         // one rank has one more
      settings.bucket_numel = world == 3 ? 1024 : 0;  // most ranks own nothing
      settings.overflow_step = world == 2 ? 1 : 0;
      CAPTURE(stage);
      CAPTURE(world);
      const StepTrace trace = trace_step(settings);
      use(trace, Values::parse(trace_json(trace)));
    }
  }
}

bool is_visit(const std::string& kind) {
  return kind == "gather" || kind == "forward" || kind == "backward" || kind == "release";
}

/// Everything of a phase as "kind index", in the order of its events.
std::vector<std::string> happenings(const Values& phase) {
  std::vector<std::string> all;
  for (const Values& event : phase.at("events")) {
    const std::string kind = event.at("kind");
    if (!event.contains("of")) all.push_back(kind);
    for (const Values& of : event.value("of", Values::array()))
      all.push_back((is_visit(kind) ? "visit" : kind) + " " + of.dump());
    for (const Values& visit : event.value("gathers", Values::array()))
      all.push_back("visit " + visit.dump());
  }
  return all;
}

std::size_t place_of(const std::vector<std::string>& order, const std::string& what) {
  const auto found = std::find(order.begin(), order.end(), what);
  CHECK_MESSAGE(found != order.end(), what);
  return static_cast<std::size_t>(found - order.begin());
}

std::size_t node_index(const Values& phase, const Values& level_index) {
  for (std::size_t n = 0; n < phase.at("nodes").size(); ++n) {
    const Values& node = phase.at("nodes").at(n);
    if (Values{node.at("level"), node.at("index")} == level_index) return n;
  }
  return phase.at("nodes").size();
}

/// "node 3", or "leaf 3" on level 0.
std::string term(const Values& phase, const Values& level_index) {
  return level_index.at(0) == 0 ? "leaf " + level_index.at(1).dump()
                                : "node " + std::to_string(node_index(phase, level_index));
}

}  // namespace

TEST_CASE("trace events: gradients, visits, messages and nodes are each in one event, once") {
  for_traces([](const StepTrace&, const Values& trace) {
    for (const Values& step : trace.at("steps")) {
      for (const Values& phase : step.at("phases")) {
        std::set<std::string> wanted;
        const bool reduce = phase.at("phase") == "reduce";
        for (std::size_t j = 0; reduce && j < step.at("leaves").size(); ++j)
          wanted.insert("leaf " + std::to_string(j));
        for (std::size_t v = 0; v < phase.at("visits").size(); ++v)
          wanted.insert("visit " + std::to_string(v));
        for (std::size_t n = 0; n < phase.at("nodes").size(); ++n)
          wanted.insert("node " + std::to_string(n));
        for (const Values& message : phase.at("messages"))
          wanted.insert("message " + message.at("call").dump());
        bool writes = false;
        for (const Values& rank : phase.at("ranks")) writes = writes || !rank.at("after").empty();
        if (phase.at("phase") == "prepare") wanted.insert("state");
        if (!phase.at("chunks").empty()) wanted.insert("chunks");
        wanted.insert(writes ? "write" : phase.at("entered") ? "nothing" : "skipped");
        const std::vector<std::string> seen = happenings(phase);
        CHECK(std::set<std::string>(seen.begin(), seen.end()) == wanted);
        CHECK(seen.size() == wanted.size());
        if (phase.at("phase") == "prepare") CHECK(seen.front() == "state");
        if (writes) CHECK(seen.back() == "write");
      }
    }
  });
}

TEST_CASE("trace events: a node follows its children, a message the nodes that its sender added") {
  for_traces([](const StepTrace& trace, const Values& json) {
    for (const Values& step : json.at("steps")) {
      const Values& phase = step.at("phases").at(1);
      const std::vector<std::string> order = happenings(phase);
      for (std::size_t n = 0; n < phase.at("nodes").size(); ++n) {
        const Values& node = phase.at("nodes").at(n);
        for (const char* side : {"left", "right"}) {
          Values child = node.at(side);  // without a right child a node has its left one's bits
          while (child.at(0) > 0 && node_index(phase, child) == phase.at("nodes").size())
            child = {child.at(0).get<int>() - 1, 2 * child.at(1).get<int>()};
          CHECK(place_of(order, term(phase, child)) < place_of(order, "node " + std::to_string(n)));
        }
        std::multiset<int> parameters;
        for (const Values& added : node.at("added"))
          for (const Values& one : added.at("parameters")) parameters.insert(one.get<int>());
        CHECK(parameters.size() == 16);
        CHECK(std::set<int>(parameters.begin(), parameters.end()).size() == 16);
      }
      for (const Values& message : phase.at("messages")) {
        for (const Values& sent : message.value("nodes", Values::array())) {
          // Layer by layer, buckets of a leaf are sent before all of it is computed.
          if (trace.settings.stage < 3 || trace.shards.buckets().size() == 1) {
            CHECK(place_of(order, term(phase, sent)) <
                  place_of(order, "message " + message.at("call").dump()));
          }
          if (sent.at(0) == 0) {
            CHECK(step.at("leaves").at(sent.at(1).get<std::size_t>()).at("rank") ==
                  message.at("from"));
            continue;
          }
          const Values& added = phase.at("nodes").at(node_index(phase, sent)).at("added");
          CHECK(added.size() == 1);
          CHECK(added.at(0).at("rank") == message.at("from"));
          CHECK(added.at(0).at("parameters").size() == 16);
        }
      }
      if (trace.settings.world_size == 1) continue;
      for (const Values& added : phase.at("nodes").back().at("added"))  // G
        CHECK(added.at("parameters") ==
              json.at("owners").at(added.at("rank").get<std::size_t>()).at("parameters"));
    }
  });
}

TEST_CASE(
    "trace events: in stage 3 a unit is there from its gather to its release, with its bytes") {
  for_traces([](const StepTrace& trace, const Values& json) {
    if (trace.settings.stage != 3) return;
    std::vector<std::int64_t> peak(json.at("owners").size());
    for (const Values& step : json.at("steps")) {
      const Values& phase = step.at("phases").at(1);
      std::map<std::pair<int, std::size_t>, std::int64_t> bytes;  // after the event, if it changes
      for (const Values& change : phase.at("memory")) {
        const auto rank = change.at("rank").get<std::size_t>();
        if (change.at("class") != "param_full") continue;
        bytes[{static_cast<int>(rank), change.at("event")}] = change.at("bytes");
        peak[rank] = std::max(peak[rank], change.at("bytes").get<std::int64_t>());
      }
      std::map<int, int> there;  // rank: unit
      for (std::size_t e = 0; e < phase.at("events").size(); ++e) {
        const Values& event = phase.at("events").at(e);
        Values visits = event.value("gathers", Values::array());
        if (is_visit(event.at("kind"))) visits = event.at("of");
        for (const Values& index : visits) {
          const Values& visit = phase.at("visits").at(index.get<std::size_t>());
          const int rank = visit.at("rank"), unit = visit.at("unit");
          const FlatRange& range = trace.model.units()[static_cast<std::size_t>(unit)];
          CHECK(is_visit(visit.at("event")));
          if (visit.at("event") == "gather") {
            CHECK(there.emplace(rank, unit).second);
            CHECK(bytes.at({rank, e}) == 2 * range.numel());  // bf16
          } else {
            CHECK(there.at(rank) == unit);
            CHECK(bytes.count({rank, e}) == (visit.at("event") == "release" ? 1 : 0));
          }
          if (visit.at("event") != "release") continue;
          CHECK(bytes.at({rank, e}) == 0);
          there.erase(rank);
        }
      }
      CHECK(there.empty());
    }
    ThreadWorld world(trace.settings.world_size);
    run_ranks(world, [&](Communicator& comm) {
      OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
      setup.comm = &comm;
      TracedGrads leaves(
          trace.model, trace.settings, 1, 0, [](std::int64_t) {}, [](const TracedVisit&) {});
      const MemoryUse use = predict_memory(predicted_step(setup, leaves.layers()));
      CHECK(peak[comm.rank()] == use.peak[static_cast<std::size_t>(MemoryClass::param_full)]);
    });
  });
}

TEST_CASE("trace events: ranks hold everything in stage 0, and their own parameters otherwise") {
  for_traces([](const StepTrace& trace, const Values& json) {
    for (const Values& owner : json.at("owners")) {
      const Values& holds = owner.at("holds");
      for (const char* kind : {"master", "state", "param_shard", "grad_sum"}) {
        CAPTURE(kind);
        if (trace.settings.stage == 0) CHECK(holds.at(kind).size() == 16);
        if (trace.settings.stage > 0) CHECK(holds.at(kind) == owner.at("parameters"));
      }
      if (trace.settings.stage < 3) CHECK(holds.at("param_full").size() == 16);
      if (trace.settings.stage == 3) CHECK(!holds.contains("param_full"));
    }
  });
}
