#include "common/checkpoint/rank_report.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "common/io/json.hpp"

namespace zeroproof {
namespace {

/// Texts of all ranks, by rank: sent to rank 0, or to all if any of them is `urgent`; empty on the
/// other ranks.
std::vector<std::string> gather_texts(Communicator& world, const std::string& mine, bool urgent) {
  const auto ranks = static_cast<std::size_t>(world.world_size());
  struct Head {
    std::uint64_t size, urgent;
  };
  const Head head = {mine.size(), urgent ? 1U : 0U};
  std::vector<Head> heads(ranks);
  std::vector<Span<std::byte>> places;
  for (Head& one : heads) places.push_back(std::as_writable_bytes(Span<Head>(&one, 1)));
  world.all_gather(std::as_bytes(Span<const Head>(&head, 1)), places);

  const bool all =
      std::any_of(heads.begin(), heads.end(), [](const Head& one) { return one.urgent != 0; });
  std::vector<Span<const std::byte>> sent(ranks);
  for (std::size_t r = 0; r < (all ? ranks : 1); ++r)
    sent[r] = std::as_bytes(Span<const char>(mine));
  std::vector<std::string> texts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (all || world.rank() == 0) texts[r].resize(heads[r].size);
    places[r] = std::as_writable_bytes(Span<char>(texts[r]));
  }
  world.all_to_all(sent, places);
  return texts;
}

std::string to_text(const RankReport& report) {
  Json json = Json::object();
  json["error"] = report.error;
  json["code"] = static_cast<int>(report.code);
  if (!report.pieces.empty()) json["part"] = part_json(report.file, report.pieces);
  return json.dump();
}

RankReport from_text(const std::string& text) {
  const Json json = Json::parse(text);
  RankReport report;
  report.error = json.at("error").get<std::string>();
  report.code = static_cast<ErrorCode>(json.at("code").get<int>());
  if (json.contains("part")) read_part(json.at("part"), report.file, report.pieces);
  return report;
}

}  // namespace

void RankReport::catch_errors(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& caught) {
    error = caught.what();
    code = caught.code();
  } catch (const std::bad_alloc&) {
    error =
        "out of memory (saving and loading copy pieces of the state, --async all of it); save "
        "without "
        "--async, or use more ranks";
    code = ErrorCode::unavailable;
  } catch (const std::exception& caught) {
    error = caught.what();
    code = ErrorCode::internal;
  }
}

std::vector<RankReport> gather_reports(Communicator& world, const RankReport& mine) {
  const std::vector<std::string> texts = gather_texts(world, to_text(mine), !mine.error.empty());
  std::vector<RankReport> reports(texts.size());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (static_cast<int>(rank) == world.rank()) {
      reports[rank] = mine;
    } else if (!texts[rank].empty()) {
      reports[rank] = from_text(texts[rank]);
    }
  }
  return reports;
}

void throw_first_error(const Communicator& world, const std::vector<RankReport>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].error.empty()) continue;
    const std::string who = reports.size() > 1 ? "rank " + std::to_string(rank) + ": " : "";
    const bool own = static_cast<int>(rank) == world.rank();
    throw Error(reports[rank].code, who + reports[rank].error,
                own ? ErrorOrigin::own : ErrorOrigin::peer);
  }
}

void together(Communicator& world, const std::function<void()>& act) {
  RankReport mine;
  mine.catch_errors(act);
  // One word carries the common case: texts are sent only if there are some.
  std::uint64_t any = mine.error.empty() ? 0 : 1;
  world.all_reduce({&any, 1}, IntegerReduce::max);
  if (any != 0) throw_first_error(world, gather_reports(world, mine));
}

}  // namespace zeroproof
