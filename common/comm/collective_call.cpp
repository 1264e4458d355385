#include "common/comm/collective_call.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace zeroproof {

namespace {

/// A mismatch of many counts has one cause; the first few identify it.
constexpr int max_listed_counts = 4;

const char* name(IntegerReduce reduce) {
  switch (reduce) {
    case IntegerReduce::sum:
      return "sum";
    case IntegerReduce::max:
      return "max";
    case IntegerReduce::bitwise_or:
      return "bitwise_or";
  }
  return "unknown reduction";
}

bool same_call(const CollectiveCall& a, const CollectiveCall& b) {
  return a.collective == b.collective && a.reduce == b.reduce && a.root == b.root &&
         a.sequence == b.sequence;
}

std::string different_calls(Span<const CollectiveCall> calls, const RankNames& names) {
  const auto differs = [&](const CollectiveCall& call) { return !same_call(call, calls[0]); };
  if (std::none_of(calls.begin(), calls.end(), differs)) return "";

  std::vector<std::string> texts;  // in order of the first rank that makes the call
  std::map<std::string, std::vector<int>> callers;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const std::string text = describe(calls[rank]);
    if (!callers.count(text)) texts.push_back(text);
    callers[text].push_back(static_cast<int>(rank));
  }
  if (texts.size() < 2) return "";
  std::string problem;
  for (const std::string& text : texts) {
    const std::vector<int>& ranks = callers[text];
    problem += (problem.empty() ? "" : ", ") + describe_ranks(ranks, names) +
               (ranks.size() == 1 ? " calls " : " call ") + text;
  }
  return problem;
}

std::string different_counts(Span<const CollectiveCall> calls, const RankNames& names) {
  std::string problem;
  int found = 0;
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      const std::int64_t sent = calls[from].send_bytes[to];
      const std::int64_t expected = calls[to].recv_bytes[from];
      if (sent == expected || ++found > max_listed_counts) continue;
      problem += (found == 1 ? "" : ", ") + describe_rank(static_cast<int>(from), names) +
                 " sends " + std::to_string(sent) + " bytes to " +
                 describe_rank(static_cast<int>(to), names) + ", which expects " +
                 std::to_string(expected);
    }
  }
  if (found > max_listed_counts)
    problem += ", and " + std::to_string(found - max_listed_counts) + " more";
  return problem.empty() ? "" : "in " + describe(calls[0]) + " " + problem;
}

std::string numbers(Span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

/// " on node b", " on nodes a, b and c": each host once, in the order of the ranks.
std::string places(Span<const int> ranks, const std::vector<std::string>& hosts) {
  std::vector<std::string> once;
  for (const int rank : ranks) {
    const std::string& host = hosts[rank];
    if (!host.empty() && std::find(once.begin(), once.end(), host) == once.end())
      once.push_back(host);
  }
  std::string text = once.size() == 1 ? " on node " : " on nodes ";
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (i > 0) text += i + 1 == once.size() ? " and " : ", ";
    text += once[i];
  }
  return once.empty() ? "" : text;
}

}  // namespace

const char* name(Collective collective) {
  switch (collective) {
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::barrier:
      return "barrier";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::split:
      return "split";
    case Collective::shared_window:
      return "shared_window";
  }
  return "unknown collective";
}

std::string describe(const CollectiveCall& call) {
  std::string text = std::string(name(call.collective)) + " #" + std::to_string(call.sequence);
  if (call.collective == Collective::broadcast) text += " from root " + std::to_string(call.root);
  if (call.collective == Collective::all_reduce)
    text += std::string(" (") + name(call.reduce) + ")";
  return text;
}

std::string describe_ranks(Span<const int> ranks, const RankNames& names) {
  std::string text = numbers(ranks);
  if (!names.in_world.empty()) {
    std::vector<int> in_world;
    for (const int rank : ranks) in_world.push_back(names.in_world[rank]);
    text += " (" + numbers(in_world) + " of the world)";
  }
  if (!names.hosts.empty()) text += places(ranks, names.hosts);
  return text;
}

std::string describe_rank(int rank, const RankNames& names) {
  return describe_ranks(Span<const int>(&rank, 1), names);
}

std::string describe(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

std::string disagreement(Span<const CollectiveCall> calls, const RankNames& names) {
  const std::string calls_differ = different_calls(calls, names);
  if (!calls_differ.empty()) {
    return "the ranks are not in the same collective: " + calls_differ +
           " (their data would end up in each other's buffers); make the same calls in the same "
           "order on "
           "every rank";
  }
  const std::string counts_differ = different_counts(calls, names);
  if (!counts_differ.empty()) {
    return "the ranks disagree about counts: " + counts_differ +
           " (data would be truncated or missing); compute the counts from the same shard map on "
           "every rank";
  }
  return "";
}

Error absent_error(Span<const int> missing, const CollectiveCall& call,
                   std::chrono::milliseconds limit, const RankNames& names,
                   const std::string& what) {
  const std::string who = describe_ranks(missing, names);
  return Error(ErrorCode::timeout, who + " did not " + what + " " + describe(call) + " within " +
                                       describe(limit) +
                                       " (the other ranks wait there and cannot go on); check " +
                                       who + ", or raise the time limit");
}

Error interrupted_error(Span<const int> missing, const CollectiveCall& call,
                        const RankNames& names) {
  return Error(ErrorCode::comm, describe_ranks(missing, names) +
                                    (missing.size() == 1 ? " is" : " are") + " missing in " +
                                    describe(call) +
                                    ", and the launcher requested the end of this job (mpirun "
                                    "sends a signal to all ranks when one has "
                                    "died); check the messages of mpirun");
}

Error left_error(Span<const int> left, const CollectiveCall& call, const RankNames& names) {
  const std::string who = describe_ranks(left, names);
  return Error(ErrorCode::comm,
               who + " left without calling " + describe(call) +
                   " (the other ranks would wait forever); make the same calls on every rank");
}

Error ended_error(int rank, const std::string& reason, const RankNames& names) {
  return Error(
      ErrorCode::comm,
      describe_rank(rank, names) + " ended: " + reason +
          " (the other ranks cannot go on without it); fix the error that this rank reports first",
      ErrorOrigin::peer);
}

}  // namespace zeroproof
