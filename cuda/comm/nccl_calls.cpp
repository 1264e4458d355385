#include "cuda/comm/nccl_calls.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace zeroproof::cuda {

namespace {

constexpr int fixed_numbers = 4;  // of a call, besides those per rank

}  // namespace

NcclCalls::Slot& NcclCalls::add(CollectiveCall call) {
  call.sequence = ++made_;
  traffic_.of_kind[static_cast<std::size_t>(call.collective)] += traffic_of(call, rank_);
  Slot& mine = slot(made_);
  mine.call = std::move(call);
  mine.enqueued = false;
  mine.marked_by = made_;
  return mine;
}

const CollectiveCall& NcclCalls::begin(CollectiveCall call) {
  if (device::capturing()) return captured_.emplace_back(std::move(call));
  if (made_ > 0) device::current_stream().wait_for(slot(made_).ended);
  return add(std::move(call)).call;
}

void NcclCalls::enqueued() {
  if (device::capturing()) return;
  slot(made_).ended.record();
  slot(made_).enqueued = true;
}

void NcclCalls::begin_replay(const std::vector<CollectiveCall>& calls) {
  if (made_ > 0) device::current_stream().wait_for(slot(made_).ended);
  replay_begin_ = made_;
  for (const CollectiveCall& call : calls) add(call);
}

/// Marks inside a graph cannot be queried from outside.
void NcclCalls::end_replay() {
  if (made_ == replay_begin_) return;
  slot(made_).ended.record();
  for (std::int64_t sequence = std::max(replay_begin_ + 1, oldest()); sequence <= made_;
       ++sequence) {
    slot(sequence).marked_by = made_;
    slot(sequence).enqueued = true;
  }
}

std::int64_t NcclCalls::ended() {
  ended_ = std::max(ended_, oldest() - 1);
  const auto has_ended = [&](std::int64_t sequence) {
    const Slot& one = slot(sequence);
    return one.enqueued && slot(one.marked_by).ended.reached();
  };
  while (ended_ < made_ && has_ended(ended_ + 1)) ++ended_;
  return ended_;
}

std::string NcclCalls::text() const {
  if (made_ == 0) return "none";
  std::string text;
  for (std::int64_t sequence = oldest(); sequence <= made_; ++sequence)
    text += (text.empty() ? "" : ", ") + describe(slot(sequence).call);
  return text + "; " + std::to_string(ended_) + " of " + std::to_string(made_) + " had ended";
}

std::vector<std::int64_t> NcclCalls::numbers() {
  try {
    ended();
  } catch (const std::exception&) {  // a failed device ends no further call
  }
  std::vector<std::int64_t> numbers = {made_, ended_};
  for (std::int64_t sequence = oldest(); sequence <= made_; ++sequence) {
    const CollectiveCall& call = slot(sequence).call;
    numbers.insert(numbers.end(),
                   {static_cast<std::int64_t>(call.collective),
                    static_cast<std::int64_t>(call.reduce), call.root, call.sequence});
    numbers.insert(numbers.end(), call.send_bytes.begin(), call.send_bytes.end());
    numbers.insert(numbers.end(), call.recv_bytes.begin(), call.recv_bytes.end());
  }
  numbers.resize(2 + kept * (fixed_numbers + 2 * world_size_), 0);
  return numbers;
}

NcclCalls::History NcclCalls::history_of(Span<const std::int64_t> numbers, int world_size) {
  History history{numbers[0], numbers[1], {}};
  const auto ranks = static_cast<std::size_t>(world_size);
  const auto count = static_cast<std::size_t>(std::min(history.made, kept));
  for (std::size_t i = 0; i < count; ++i) {
    const auto part =
        numbers.subspan(2 + i * (fixed_numbers + 2 * ranks), fixed_numbers + 2 * ranks);
    const auto bytes = part.subspan(fixed_numbers);
    CollectiveCall call;
    call.collective = static_cast<Collective>(part[0]);
    call.reduce = static_cast<IntegerReduce>(part[1]);
    call.root = static_cast<int>(part[2]);
    call.sequence = part[3];
    call.send_bytes.assign(bytes.begin(), bytes.begin() + world_size);
    call.recv_bytes.assign(bytes.begin() + world_size, bytes.end());
    history.calls.push_back(std::move(call));
  }
  return history;
}

const CollectiveCall* NcclCalls::History::find(std::int64_t sequence) const {
  for (const CollectiveCall& call : calls) {
    if (call.sequence == sequence) return &call;
  }
  return nullptr;
}

}  // namespace zeroproof::cuda
