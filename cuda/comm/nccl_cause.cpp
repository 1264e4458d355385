#include "cuda/comm/nccl_cause.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "cuda/comm/nccl_calls.hpp"

namespace zeroproof::cuda {

namespace {

using History = NcclCalls::History;

std::vector<History> gather_histories(Communicator& ranks, Span<const std::int64_t> numbers) {
  const auto world = static_cast<std::size_t>(ranks.world_size());
  std::vector<std::int64_t> answers(world * numbers.size());
  std::vector<Span<std::byte>> blocks;
  for (std::size_t rank = 0; rank < world; ++rank) {
    blocks.push_back(std::as_writable_bytes(
        Span<std::int64_t>(answers).subspan(rank * numbers.size(), numbers.size())));
  }
  ranks.all_gather(std::as_bytes(numbers), blocks);
  std::vector<History> histories;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const Span<const std::int64_t> answer(answers);
    histories.push_back(NcclCalls::history_of(answer.subspan(rank * numbers.size(), numbers.size()),
                                              ranks.world_size()));
  }
  return histories;
}

std::vector<int> those(const std::vector<History>& histories, const auto& applies) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < histories.size(); ++rank) {
    if (applies(histories[rank])) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// One call as recorded by all ranks that made it and still keep it.
std::vector<CollectiveCall> made(const std::vector<History>& histories, std::int64_t sequence) {
  std::vector<CollectiveCall> calls;
  for (const History& rank : histories) {
    if (const CollectiveCall* call = rank.find(sequence)) calls.push_back(*call);
  }
  return calls;
}

NcclCause judge(const std::vector<History>& histories, const std::string& name,
                std::chrono::milliseconds limit) {
  std::int64_t stuck =
      histories.front().ended + 1;  // the first known call that has not ended on all ranks
  std::int64_t last = 0;
  for (const History& rank : histories) {
    stuck = std::min(stuck, rank.ended + 1);
    last = std::max(last, rank.made);
  }
  while (stuck < last && made(histories, stuck).empty()) ++stuck;
  const std::vector<CollectiveCall> calls = made(histories, stuck);
  if (calls.empty()) {
    return {Error(ErrorCode::timeout,
                  "the awaited work did not end within " + describe(limit) + ", though " + name +
                      " has ended all calls (the work after them hangs); check the device work of "
                      "this rank"),
            false};
  }
  const std::vector<int> absent =
      those(histories, [&](const History& rank) { return rank.made < stuck; });
  if (!absent.empty()) return {absent_error(absent, calls.front(), limit), true};
  for (std::int64_t sequence = stuck; sequence <= last; ++sequence) {
    const std::vector<CollectiveCall> compared = made(histories, sequence);
    if (compared.size() < histories.size()) break;
    const std::string problem = disagreement(compared);
    if (!problem.empty()) return {Error(ErrorCode::comm, problem), true};
  }
  const std::vector<int> waiting =
      those(histories, [&](const History& rank) { return rank.ended < stuck; });
  return {Error(ErrorCode::timeout,
                describe(calls.front()) + " of " + name + " did not end on " +
                    describe_ranks(waiting) + " within " + describe(limit) +
                    " (all ranks made the same calls, so a device or a link between two hangs); "
                    "run it again with NCCL_DEBUG=WARN, or raise the time limit"),
          false};
}

}  // namespace

NcclCause find_cause(Communicator& ranks, Span<const std::int64_t> numbers, const std::string& name,
                     std::chrono::milliseconds limit) {
  try {
    return judge(gather_histories(ranks, numbers), name, limit);
  } catch (const Error& error) {
    return {
        Error(error.code(),
              "comparing the calls of the ranks of " + name +
                  " failed, after one did not end within " + describe(limit) + ", " + error.what(),
              error.origin()),
        true};
  }
}

}  // namespace zeroproof::cuda
