#include "verification/report/json_bytes.hpp"

namespace zeroproof::verification {
namespace {

Json value_of(const Planned& planned) {
  return {{"measured", planned.measured}, {"predicted", planned.predicted}};
}

Planned planned_from(const Json& json) { return {json.at("measured"), json.at("predicted")}; }

}  // namespace

Json to_json_value(const std::vector<RankBytes>& ranks) {
  Json all = Json::array();
  for (const RankBytes& rank : ranks) {
    Json memory = Json::array();
    for (const RankBytes::Class& of : rank.memory) {
      memory.push_back({{"class", of.name}, {"bytes", value_of(of.bytes)}});
    }
    Json sent = Json::array();
    for (const RankBytes::Wire& wire : rank.sent) {
      sent.push_back({{"group", wire.group},
                      {"collective", wire.collective},
                      {"calls", value_of(wire.calls)},
                      {"messages", value_of(wire.messages)},
                      {"bytes", value_of(wire.bytes)}});
    }
    all.push_back({{"rank", rank.rank},
                   {"peak", value_of(rank.peak)},
                   {"memory", std::move(memory)},
                   {"sent", std::move(sent)}});
  }
  return all;
}

std::vector<RankBytes> rank_bytes_from(const Json& json) {
  std::vector<RankBytes> ranks;
  for (const Json& value : json) {
    RankBytes rank;
    rank.rank = value.at("rank");
    rank.peak = planned_from(value.at("peak"));
    for (const Json& of : value.at("memory")) {
      rank.memory.push_back({of.at("class"), planned_from(of.at("bytes"))});
    }
    for (const Json& wire : value.at("sent")) {
      rank.sent.push_back({wire.at("group"), wire.at("collective"), planned_from(wire.at("calls")),
                           planned_from(wire.at("messages")), planned_from(wire.at("bytes"))});
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace zeroproof::verification
