#include "verification/comm/comm_run.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/comm/device_comm_groups.hpp"
#include "cuda/comm/memory/rank_stream.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "verification/cases/status_of.hpp"
#include "verification/cases/stopwatch.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/comm/comm_round.hpp"
#include "verification/compare/judge.hpp"
#include "verification/training/ranks/mpi_world.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {
namespace {

/// The memory of one call on a rank: its blocks, and gaps.
class Image {
 public:
  Image(std::vector<CommBlock> blocks, CommPlaces places, std::int64_t width)
      : blocks_(std::move(blocks)), begins_(blocks_.size()) {
    grow(3 * width);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::size_t at = places == CommPlaces::adjacent ? i : blocks_.size() - 1 - i;
      begins_[at] = before_.size();
      before_.insert(before_.end(), blocks_[at].before.begin(), blocks_[at].before.end());
      after_.insert(after_.end(), blocks_[at].after.begin(), blocks_[at].after.end());
      if (places == CommPlaces::scattered) grow((2 * static_cast<std::int64_t>(i) + 5) * width);
    }
    grow(width);
  }

  Span<const std::byte> before() const { return before_; }

  /// The blocks in memory that has the content of before(), in their order.
  std::vector<Span<std::byte>> places(std::byte* memory) const {
    std::vector<Span<std::byte>> spans;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      spans.emplace_back(memory + begins_[i], blocks_[i].before.size());
    return spans;
  }

  /// Compares elements; those of gaps are numbered from the start of the memory.
  void compare(Span<const std::byte> found, DType dtype, const Divergence& place,
               Judge& judge) const {
    const auto width = static_cast<std::size_t>(num_bytes(dtype));
    judge.see({const_cast<std::byte*>(found.data()), dtype, numel(found) / num_bytes(dtype)}, 0,
              numel(found) / num_bytes(dtype));
    Comparison gaps;
    std::vector<Comparison> of_blocks(blocks_.size());
    for (std::size_t at = 0; at < found.size(); at += width) {
      const std::size_t block = block_at(at);
      const bool inside = block < blocks_.size();
      Comparison& comparison = inside ? of_blocks[block] : gaps;
      ++comparison.compared;
      if (std::memcmp(found.data() + at, after_.data() + at, width) == 0) continue;
      ++comparison.differing;
      const auto index = static_cast<std::int64_t>((at - (inside ? begins_[block] : 0)) / width);
      comparison.last_index = index;
      if (!comparison.first)
        comparison.first = {index, word_of(after_.data() + at, width),
                            word_of(found.data() + at, width)};
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      count(of_blocks[i], dtype, place, blocks_[i].name, "differs from its definition", judge);
    count(gaps, dtype, place, "memory", "was written between the blocks", judge);
  }

 private:
  void grow(std::int64_t num_bytes) {
    constexpr std::byte gap{0xA5};
    before_.insert(before_.end(), static_cast<std::size_t>(num_bytes), gap);
    after_.insert(after_.end(), static_cast<std::size_t>(num_bytes), gap);
  }

  /// The number of blocks in a gap.
  std::size_t block_at(std::size_t byte) const {
    std::size_t block = 0;
    while (block < blocks_.size() &&
           !(byte >= begins_[block] && byte < begins_[block] + blocks_[block].before.size()))
      ++block;
    return block;
  }

  static std::uint64_t word_of(const std::byte* from, std::size_t width) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, width);
    return word;
  }

  static void count(const Comparison& comparison, DType dtype, Divergence place,
                    const std::string& buffer, const char* what, Judge& judge) {
    place.buffer = buffer;
    place.what = what;
    judge.count(comparison, dtype, std::move(place));
  }

  const std::vector<CommBlock> blocks_;
  std::vector<std::size_t> begins_;  // [blocks_]
  CommBytes before_, after_;
};

/// The memory that a call uses: the host's, or the current device's.
class CallMemory {
 public:
  CallMemory(Span<const std::byte> content, bool on_device)
      : content_(content.begin(), content.end()), device_(on_device ? numel(content) : 0) {
    if (device_.count() > 0)
      cuda::device::stage_to_device(device_.data(), content_.data(), device_.num_bytes());
  }

  std::byte* data() { return device_.count() > 0 ? device_.data() : content_.data(); }

  /// Waits for the call.
  const CommBytes& read() {
    if (device_.count() > 0) {
      cuda::device::stage_to_host(content_.data(), device_.data(), device_.num_bytes());
      cuda::device::wait_for_stream();
    }
    return content_;
  }

 private:
  CommBytes content_;
  const cuda::DeviceArray<std::byte> device_;
};

template <class Word>
Span<Word> words_in(Span<std::byte> bytes) {
  return {reinterpret_cast<Word*>(bytes.data()), bytes.size() / sizeof(Word)};
}

/// blocks: as blocks_of() has them.
void call(Communicator& comm, const CommCaseSpec& spec, const CommRound& round,
          const std::vector<Span<std::byte>>& blocks) {
  const std::vector<Span<const std::byte>> sent(blocks.begin(), blocks.end());
  const auto ranks = static_cast<std::size_t>(comm.world_size());
  const Span<const Span<std::byte>> all(blocks);
  switch (spec.op) {
    case CommOp::all_to_all:
      return comm.all_to_all(Span<const Span<const std::byte>>(sent).first(ranks),
                             all.subspan(ranks));
    case CommOp::all_gather:
      return comm.all_gather(blocks[0], all.subspan(1));
    case CommOp::all_gather_in_place:
      return comm.all_gather(blocks[comm.rank()], all);
    case CommOp::split:
      return comm.split(comm.rank() % 2)->all_gather(blocks[0], all.subspan(1));
    case CommOp::broadcast:
      return comm.broadcast(blocks[0], round.root());
    case CommOp::all_reduce_sum:
      return comm.all_reduce(words_in<std::uint64_t>(blocks[0]), IntegerReduce::sum);
    case CommOp::all_reduce_max:
      return comm.all_reduce(words_in<std::uint64_t>(blocks[0]), IntegerReduce::max);
    case CommOp::all_reduce_or:
      return comm.all_reduce(words_in<std::uint64_t>(blocks[0]), IntegerReduce::bitwise_or);
    case CommOp::reduce_scatter: {
      std::vector<std::int64_t> counts;
      for (int to = 0; to < round.ranks; ++to)
        counts.push_back(part_numel(round, spec.parts, 0, to));
      return comm.native_reduce_scatter(words_in<float>(blocks[0]), counts,
                                        words_in<float>(blocks[1]));
    }
    case CommOp::shared_window:
      break;
  }
}

/// One rank of a case.
class CommRank {
 public:
  CommRank(const CommCaseSpec& spec, std::uint64_t seed, int rank)
      : spec_(spec), seed_(seed), rank_(rank) {}

  void run(Communicator& comm) {
    for (const CommRound& round : rounds_of(spec_.op, comm.world_size(), seed_)) {
      spec_.op == CommOp::shared_window ? run_window(comm, round) : run_round(comm, round);
    }
  }

  const Judge& judge() const { return judge_; }

 private:
  Divergence place(const CommRound& round) const {
    Divergence place;
    place.step = round.number + 1;
    place.phase.reset();
    place.rank = rank_;
    place.call = "rank " + std::to_string(rank_) + ", " + std::string(name(round.dtype)) +
                 ", parts from " + std::to_string(round.numel) + " elements";
    return place;
  }

  void run_round(Communicator& comm, const CommRound& round) {
    const Image image(blocks_of(spec_, round, rank_), spec_.places, num_bytes(round.dtype));
    CallMemory memory(image.before(), spec_.transport != CommTransport::host);
    call(comm, spec_, round, image.places(memory.data()));
    image.compare(memory.read(), round.dtype, place(round), judge_);
  }

  void compare_block(Span<const std::byte> block, const std::string& name, const CommBytes& want,
                     const CommRound& round) {
    if (block.size() != want.size()) {
      Divergence wrong = place(round);
      wrong.buffer = name;
      wrong.what = "has " + std::to_string(block.size()) + " bytes instead of " +
                   std::to_string(want.size());
      judge_.note(std::move(wrong), 1);
    }
    const Image image({{name, poison(want), want}}, spec_.places, num_bytes(round.dtype));
    CommBytes found(image.before().begin(), image.before().end());
    std::ranges::copy(block.first(std::min(block.size(), want.size())),
                      image.places(found.data()).front().begin());
    image.compare(found, round.dtype, place(round), judge_);
  }

  /// Reads its new block and writes it, and after a fence reads those of all ranks.
  void run_window(Communicator& comm, const CommRound& round) {
    const CommBytes mine = window_block(round, spec_.parts, rank_);
    const auto window = comm.shared_window(static_cast<std::int64_t>(mine.size()));
    bool shared = spec_.transport == CommTransport::host;
    for (int rank = 0; rank < comm.world_size(); ++rank)
      shared = shared && comm.host_of(rank) == comm.host_of(0);
    if (shared != (window != nullptr)) {
      Divergence wrong = place(round);
      wrong.buffer = "window";
      wrong.what = shared ? "is null, although the ranks share memory"
                          : "is not null, although the ranks share no memory";
      judge_.note(std::move(wrong), 1);
    }
    if (window == nullptr) {
      Comparison null;
      null.compared = 1;
      return judge_.count(null, round.dtype, {});
    }
    const Span<std::byte> own = window->of(rank_);
    compare_block(own, "the new block", CommBytes(mine.size(), std::byte{0xFF}), round);
    std::copy_n(mine.begin(), std::min(mine.size(), own.size()), own.begin());
    window->fence();
    for (int rank = 0; rank < comm.world_size(); ++rank)
      compare_block(window->of(rank), "of(" + std::to_string(rank) + ")",
                    window_block(round, spec_.parts, rank), round);
    window->fence();
  }

  const CommCaseSpec& spec_;
  const std::uint64_t seed_;
  const int rank_;
  Judge judge_;
};

/// Runs a rank over its communicator, on a device over one that uses it.
void run_rank(CommRank& rank, const CommCaseSpec& spec, Communicator& control,
              const std::string& fault) {
  const auto run = [&](Communicator& comm) {
    if (fault.empty()) return rank.run(comm);
    rank.run(*plant_fault(fault, comm));
  };
  if (spec.transport == CommTransport::host) return run(control);
  const cuda::RankStream stream(control.rank());
  const cuda::RankStream::Inside inside(stream);
  OptimizerSetup setup;
  setup.comm = &control;
  setup.transport = spec.transport == CommTransport::nccl ? Transport::nccl : Transport::copies;
  const cuda::DeviceCommGroups groups(setup);
  const cuda::device::MakeWatch watch = groups.watch();
  const cuda::device::WatchWaits watching(watch);
  run(*groups.comm_groups().comm);
}

/// What the ranks of this process have compared, in one tally each.
std::vector<RankReport> reports_of(const std::vector<CommRank>& ranks) {
  std::vector<RankReport> reports(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Judge& judge = ranks[rank].judge();
    PhaseTally tally;
    tally.compared = judge.compared();
    tally.differing = judge.differing();
    reports[rank].run.tallies = {tally};
    reports[rank].divergence = judge.first();
    reports[rank].results = judge.results(static_cast<int>(rank));
  }
  return reports;
}

}  // namespace

Result judge_comm(const CommCaseSpec& spec, std::uint64_t seed, double timeout_s,
                  const std::string& fault) {
  const Stopwatch stopwatch;
  Result result;
  result.id = spec.id();
  result.suite = "comm";
  result.group = name(spec.op);
  result.side = spec.ranks();
  result.exactness = "bitwise";
  result.reason = obstacle(spec);
  result.status = result.reason.empty() ? Status::pass : Status::skipped;
  if (!result.reason.empty()) return result;
  std::vector<CommRank> ranks;
  for (int rank = 0; rank < spec.world.size; ++rank) ranks.emplace_back(spec, seed, rank);
  std::vector<RankReport> reports;
  try {
    const auto world = spec.world.has_processes() ? make_mpi_world(timeout_s)
                                                  : make_local_world(spec.world, timeout_s);
    world->run([&](int rank, const RankComparison::Communicators& comms) {
      run_rank(ranks[rank], spec, *comms.candidate, fault);
    });
    reports = world->collect(reports_of(ranks));
  } catch (const std::exception& thrown) {
    result.status = status_of(thrown);
    result.reason = message_of(thrown);
    reports = reports_of(ranks);
  }
  for (const RankReport& rank : reports) {
    result.compared += rank.run.tallies.front().compared;
    result.differing += rank.run.tallies.front().differing;
    if (rank.results) result.ranks.push_back(*rank.results);
    const auto& first = rank.divergence;
    if (first && (!result.divergence || first->step < result.divergence->step))
      result.divergence = first;
  }
  if (result.divergence) {
    result.reason = describe(*result.divergence) +
                    (result.reason.empty() ? "" : " (then: " + result.reason + ")");
    result.status = Status::fail;
  } else if (result.status == Status::pass && result.compared == 0) {
    result.status = Status::mistrusted;
    result.reason = "nothing was compared";
  }
  result.seconds = stopwatch.seconds();
  return result;
}

}  // namespace zeroproof::verification
