#include "verification/comm/comm_round.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

/// Whether a collective combines the parts of all ranks, so that they have one length.
bool reduces(CommOp op) {
  return op == CommOp::all_reduce_sum || op == CommOp::all_reduce_max ||
         op == CommOp::all_reduce_or || op == CommOp::reduce_scatter;
}

/// Random bytes; for sums of floats whole numbers below 1000.
CommBytes sent(const CommCaseSpec& spec, const CommRound& round, int from, int to) {
  const std::int64_t numel = part_numel(round, spec.parts, reduces(spec.op) ? 0 : from, to);
  const Philox random(round.seed, static_cast<std::uint32_t>(from * 64 + to),
                      static_cast<std::uint32_t>(round.number));
  CommBytes bytes(numel * num_bytes(round.dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(static_cast<int>(random.uniform(i) * 256));
  if (spec.op != CommOp::reduce_scatter) return bytes;
  for (std::int64_t i = 0; i < numel; ++i) {
    const auto value = static_cast<float>(static_cast<int>(random.uniform(i) * 1000));
    std::memcpy(bytes.data() + i * num_bytes(round.dtype), &value, sizeof(value));
  }
  return bytes;
}

template <class Word, class Combine>
CommBytes combined(const CommBytes& a, const CommBytes& b, const Combine& combine) {
  CommBytes result(a.size());
  for (std::size_t at = 0; at < a.size(); at += sizeof(Word)) {
    Word left, right;
    std::memcpy(&left, a.data() + at, sizeof(Word));
    std::memcpy(&right, b.data() + at, sizeof(Word));
    const Word both = combine(left, right);
    std::memcpy(result.data() + at, &both, sizeof(Word));
  }
  return result;
}

CommBytes reduced(CommOp op, const CommBytes& a, const CommBytes& b) {
  using Word = std::uint64_t;
  if (op == CommOp::all_reduce_max)
    return combined<Word>(a, b, [](Word x, Word y) { return std::max(x, y); });
  if (op == CommOp::all_reduce_or)
    return combined<Word>(a, b, [](Word x, Word y) { return x | y; });
  if (op == CommOp::all_reduce_sum)
    return combined<Word>(a, b, [](Word x, Word y) { return x + y; });
  return combined<float>(a, b, [](float x, float y) { return x + y; });
}

/// What a rank gets of all ranks' parts for `to`, combined.
CommBytes reduced_over_ranks(const CommCaseSpec& spec, const CommRound& round, int to) {
  CommBytes all = sent(spec, round, 0, to);
  for (int from = 1; from < round.ranks; ++from)
    all = reduced(spec.op, all, sent(spec, round, from, to));
  return all;
}

std::string numbered(const char* name, int number) {
  return std::string(name) + "[" + std::to_string(number) + "]";
}

}  // namespace

CommBytes poison(const CommBytes& like) { return CommBytes(like.size(), std::byte{0xEE}); }

std::vector<CommRound> rounds_of(CommOp op, int ranks, std::uint64_t seed) {
  std::vector<CommRound> rounds;
  for (const DType dtype : {DType::e4m3, DType::bf16, DType::fp32, DType::u64}) {
    const DType added = op == CommOp::reduce_scatter ? DType::fp32 : DType::u64;
    if (reduces(op) && dtype != added) continue;
    for (const std::int64_t numel : {1, 2, 7, 64, 1025})
      rounds.push_back({static_cast<std::int64_t>(rounds.size()), dtype, numel, ranks, seed});
  }
  return rounds;
}

std::int64_t part_numel(const CommRound& round, CommParts parts, int from, int to) {
  if (parts == CommParts::equal) return round.numel;
  const std::int64_t unequal = round.numel + 3 * from + to;
  if (parts == CommParts::unequal) return unequal;
  const bool nothing_at_all = round.number % 4 == 3;  // 4: not always the same of the 5 lengths
  return nothing_at_all || (from + to + round.number) % 2 == 1 ? 0 : unequal;
}

std::vector<int> group_of(int rank, int ranks) {
  std::vector<int> members;
  for (int other = rank % 2; other < ranks; other += 2) members.push_back(other);
  return members;
}

std::vector<CommBlock> blocks_of(const CommCaseSpec& spec, const CommRound& round, int rank) {
  std::vector<CommBlock> blocks;
  const auto send = [&](const std::string& name, const CommBytes& bytes) {
    blocks.push_back({name, bytes, bytes});
  };
  const auto receive = [&](const std::string& name, const CommBytes& bytes) {
    blocks.push_back({name, poison(bytes), bytes});
  };
  std::vector<int> all(round.ranks);
  for (int other = 0; other < round.ranks; ++other) all[other] = other;
  switch (spec.op) {
    case CommOp::all_to_all:
      for (const int to : all) send(numbered("send", to), sent(spec, round, rank, to));
      for (const int from : all) receive(numbered("recv", from), sent(spec, round, from, rank));
      break;
    case CommOp::all_gather:
    case CommOp::split:
      send("mine", sent(spec, round, rank, 0));
      for (const int from : spec.op == CommOp::split ? group_of(rank, round.ranks) : all)
        receive(numbered("recv", from), sent(spec, round, from, 0));
      break;
    case CommOp::all_gather_in_place:
      for (const int from : all) receive(numbered("recv", from), sent(spec, round, from, 0));
      blocks[rank].before = blocks[rank].after;
      break;
    case CommOp::broadcast: {
      const CommBytes of_root = sent(spec, round, round.root(), 0);
      rank == round.root() ? send("data", of_root) : receive("data", of_root);
      break;
    }
    case CommOp::all_reduce_sum:
    case CommOp::all_reduce_max:
    case CommOp::all_reduce_or:
      blocks.push_back({"data", sent(spec, round, rank, 0), reduced_over_ranks(spec, round, 0)});
      break;
    case CommOp::reduce_scatter: {
      CommBytes parts;
      for (const int to : all) {
        const CommBytes part = sent(spec, round, rank, to);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      send("send", parts);
      receive("recv", reduced_over_ranks(spec, round, rank));
      break;
    }
    case CommOp::shared_window:
      break;
  }
  return blocks;
}

CommBytes window_block(const CommRound& round, CommParts parts, int rank) {
  CommCaseSpec spec;
  spec.parts = parts;
  return sent(spec, round, rank, 0);
}

}  // namespace zeroproof::verification
