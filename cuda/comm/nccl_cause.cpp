#include "cuda/comm/nccl_cause.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "cuda/comm/nccl_calls.hpp"

namespace zeroproof::cuda {

namespace {

using Told = NcclCalls::Told;

std::vector<Told> ask(Communicator& ranks, Span<const std::int64_t> numbers) {
  const auto world = static_cast<std::size_t>(ranks.world_size());
  std::vector<std::int64_t> answers(world * numbers.size());
  std::vector<Span<std::byte>> blocks;
  for (std::size_t rank = 0; rank < world; ++rank) {
    blocks.push_back(std::as_writable_bytes(
        Span<std::int64_t>(answers).subspan(rank * numbers.size(), numbers.size())));
  }
  ranks.all_gather(std::as_bytes(numbers), blocks);
  std::vector<Told> told;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const Span<const std::int64_t> answer(answers);
    told.push_back(
        NcclCalls::told(answer.subspan(rank * numbers.size(), numbers.size()), ranks.world_size()));
  }
  return told;
}

std::vector<int> those(const std::vector<Told>& told, const auto& applies) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (applies(told[rank])) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// One call as all ranks know it that have made it and have not forgotten it again.
std::vector<CollectiveCall> made(const std::vector<Told>& told, std::int64_t sequence) {
  std::vector<CollectiveCall> calls;
  for (const Told& rank : told) {
    if (const CollectiveCall* call = rank.find(sequence)) calls.push_back(*call);
  }
  return calls;
}

NcclCause judge(const std::vector<Told>& told, const std::string& name,
                std::chrono::milliseconds limit) {
  std::int64_t stuck = told.front().ended +
                       1;  // the first call that has not ended everywhere, of those that are known
  std::int64_t last = 0;
  for (const Told& rank : told) {
    stuck = std::min(stuck, rank.ended + 1);
    last = std::max(last, rank.made);
  }
  while (stuck < last && made(told, stuck).empty()) ++stuck;
  const std::vector<CollectiveCall> calls = made(told, stuck);
  if (calls.empty()) {
    return {
        Error(ErrorCode::timeout,
              "what was waited for did not come within " + describe(limit) + ", though " + name +
                  " has ended all calls (the work after them hangs); see what the device of "
                  "this rank was given"),
        false};
  }
  const std::vector<int> absent = those(told, [&](const Told& rank) { return rank.made < stuck; });
  if (!absent.empty()) return {absent_error(absent, calls.front(), limit), true};
  for (std::int64_t sequence = stuck; sequence <= last; ++sequence) {
    const std::vector<CollectiveCall> compared = made(told, sequence);
    if (compared.size() < told.size()) break;
    const std::string problem = disagreement(compared);
    if (!problem.empty()) return {Error(ErrorCode::comm, problem), true};
  }
  const std::vector<int> waiting =
      those(told, [&](const Told& rank) { return rank.ended < stuck; });
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
    return judge(ask(ranks, numbers), name, limit);
  } catch (const Error& error) {
    return {Error(error.code(),
                  "when the ranks of " + name +
                      " were asked for their calls, since one did not end within " +
                      describe(limit) + ", " + error.what(),
                  error.origin()),
            true};
  }
}

}  // namespace zeroproof::cuda
