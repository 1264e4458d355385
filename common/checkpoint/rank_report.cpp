#include "common/checkpoint/rank_report.hpp"

#include <exception>
#include <new>

#include "common/io/json.hpp"

namespace zeroproof {
namespace {

/// Texts of all ranks, by rank.
std::vector<std::string> gather_texts(Communicator& world, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(world.world_size());
  std::vector<std::uint64_t> sizes(ranks);
  const std::uint64_t size = mine.size();
  std::vector<Span<std::byte>> places;
  for (std::uint64_t& one : sizes) places.push_back(std::as_writable_bytes(Span<std::uint64_t>(&one, 1)));
  world.all_gather(std::as_bytes(Span<const std::uint64_t>(&size, 1)), places);
  std::vector<std::string> texts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    texts[r].resize(sizes[r]);
    places[r] = std::as_writable_bytes(Span<char>(texts[r]));
  }
  world.all_gather(std::as_bytes(Span<const char>(mine)), places);
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
  } catch (const std::bad_alloc& caught) {  // of the programs: how many bytes, and what for
    error =
        "there is not enough memory: " + std::string(caught.what()) +
        " (what is saved or loaded is copied, all of it under --async); save without --async, or use more "
        "ranks";
    code = ErrorCode::unavailable;
  } catch (const std::exception& caught) {
    error = caught.what();
    code = ErrorCode::internal;
  }
}

std::vector<RankReport> gather_reports(Communicator& world, const RankReport& mine) {
  std::vector<RankReport> reports;
  for (const std::string& text : gather_texts(world, to_text(mine))) reports.push_back(from_text(text));
  return reports;
}

void throw_first_error(const std::vector<RankReport>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].error.empty()) continue;
    const std::string who = reports.size() > 1 ? "rank " + std::to_string(rank) + ": " : "";
    throw Error(reports[rank].code, who + reports[rank].error);
  }
}

void together(Communicator& world, const std::function<void()>& act) {
  RankReport mine;
  mine.catch_errors(act);
  // One word tells most of it: texts travel only if there are some.
  std::uint64_t any = mine.error.empty() ? 0 : 1;
  world.all_reduce({&any, 1}, IntegerReduce::max);
  if (any != 0) throw_first_error(gather_reports(world, mine));
}

}  // namespace zeroproof
