#include "common/comm/collective_call.hpp"

#include <cstddef>
#include <map>

namespace zeroproof {

namespace {

/// A mismatch of many counts has one cause; the first few show it.
constexpr int max_listed_counts = 4;

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
  }
  return "unknown collective";
}

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

std::string different_calls(Span<const CollectiveCall> calls) {
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
    problem += (problem.empty() ? "" : ", ") + describe_ranks(ranks) +
               (ranks.size() == 1 ? " calls " : " call ") + text;
  }
  return problem;
}

std::string different_counts(Span<const CollectiveCall> calls) {
  std::string problem;
  int found = 0;
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      const std::int64_t sent = calls[from].send_bytes[to];
      const std::int64_t expected = calls[to].recv_bytes[from];
      if (sent == expected || ++found > max_listed_counts) continue;
      problem += (found == 1 ? "" : ", ") + ("rank " + std::to_string(from)) + " sends " +
                 std::to_string(sent) + " bytes to rank " + std::to_string(to) + ", which expects " +
                 std::to_string(expected);
    }
  }
  if (found > max_listed_counts) problem += ", and " + std::to_string(found - max_listed_counts) + " more";
  return problem.empty() ? "" : "in " + describe(calls[0]) + " " + problem;
}

}  // namespace

std::string describe(const CollectiveCall& call) {
  std::string text = std::string(name(call.collective)) + " #" + std::to_string(call.sequence);
  if (call.collective == Collective::broadcast) text += " from root " + std::to_string(call.root);
  if (call.collective == Collective::all_reduce) text += std::string(" (") + name(call.reduce) + ")";
  return text;
}

std::string describe_ranks(Span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string describe(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

std::string disagreement(Span<const CollectiveCall> calls) {
  const std::string calls_differ = different_calls(calls);
  if (!calls_differ.empty()) {
    return "the ranks are not in the same collective: " + calls_differ +
           " (their data would end up in each other's buffers); make the same calls in the same order on "
           "every rank";
  }
  const std::string counts_differ = different_counts(calls);
  if (!counts_differ.empty()) {
    return "the ranks disagree about counts: " + counts_differ +
           " (data would be cut off or missing); compute the counts from the same shard map on every rank";
  }
  return "";
}

Error absent_error(Span<const int> missing, const CollectiveCall& call, std::chrono::milliseconds limit,
                   const std::string& what) {
  const std::string who = describe_ranks(missing);
  return Error(ErrorCode::timeout, who + " did not " + what + " " + describe(call) + " within " +
                                       describe(limit) +
                                       " (the other ranks wait there and cannot go on); see what " + who +
                                       " is doing, or raise the time limit");
}

Error interrupted_error(Span<const int> missing, const CollectiveCall& call) {
  return Error(ErrorCode::comm,
               describe_ranks(missing) + (missing.size() == 1 ? " is" : " are") + " missing in " +
                   describe(call) +
                   ", and this job was told to end (mpirun sends SIGTERM to all ranks when one has "
                   "died); see what mpirun reports about it");
}

Error left_error(Span<const int> left, const CollectiveCall& call) {
  const std::string who = describe_ranks(left);
  return Error(ErrorCode::comm,
               who + " left without calling " + describe(call) +
                   " (the other ranks would wait for ever); make the same calls on every rank");
}

Error ended_error(int rank, const std::string& reason) {
  return Error(ErrorCode::comm,
               "rank " + std::to_string(rank) + " ended: " + reason +
                   " (the other ranks cannot go on without it); mend what that rank reports first");
}

}  // namespace zeroproof
