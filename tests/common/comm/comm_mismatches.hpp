#pragma once
// Mismatched collectives: every pair of different calls, of which one rank makes the second.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "comm_cases.hpp"

namespace zeroproof_test {

inline constexpr std::byte untouched{0xAB};

/// Passes three blocks of `untouched` to `call`, and checks them, also after an exception.
template <class Call>
void leaves(std::size_t num_bytes, bool& intact, const Call& call) {
  std::vector<Bytes> blocks(3, Bytes(num_bytes, untouched));
  const auto check = [&] {
    for (const Bytes& block : blocks)
      intact = intact &&
               std::all_of(block.begin(), block.end(), [](std::byte b) { return b == untouched; });
  };
  try {
    call(blocks);
  } catch (...) {
    check();
    throw;
  }
  check();
}

/// The call of one rank; `intact` becomes false if data moved. For worlds of three ranks.
struct Mismatch {
  using Call = std::function<void(zeroproof::Communicator&, bool& intact)>;
  const char* name;
  Call call;
};

inline std::vector<Mismatch> mismatches() {
  using zeroproof::Communicator;
  using zeroproof::IntegerReduce;
  using zeroproof::Span;
  const auto broadcast = [](std::size_t num_bytes, int root) {
    return [=](Communicator& comm, bool& intact) {
      leaves(num_bytes, intact,
             [&](std::vector<Bytes>& blocks) { comm.broadcast(blocks[0], root); });
    };
  };
  const auto all_gather = [](std::size_t num_bytes) {
    return [=](Communicator& comm, bool& intact) {
      const Bytes mine(num_bytes, std::byte{1});
      leaves(num_bytes, intact,
             [&](std::vector<Bytes>& blocks) { comm.all_gather(mine, writable(blocks)); });
    };
  };
  const auto all_to_all = [](std::size_t num_bytes) {
    return [=](Communicator& comm, bool& intact) {
      const Bytes mine(num_bytes, std::byte{1});
      leaves(num_bytes, intact, [&](std::vector<Bytes>& blocks) {
        comm.all_to_all(std::vector<Span<const std::byte>>{mine, mine, mine}, writable(blocks));
      });
    };
  };
  const auto all_reduce = [](std::size_t count, IntegerReduce op) {
    return [=](Communicator& comm, bool& intact) {
      std::vector<std::uint64_t> words(count, 5);
      const auto check = [&] { intact = intact && words == std::vector<std::uint64_t>(count, 5); };
      try {
        comm.all_reduce(words, op);
      } catch (...) {
        check();
        throw;
      }
      check();
    };
  };
  return {
      {"barrier", [](Communicator& comm, bool&) { comm.barrier(); }},
      {"broadcast from 0", broadcast(8, 0)},
      {"broadcast from 2", broadcast(8, 2)},
      {"longer broadcast from 0", broadcast(9, 0)},
      {"all_gather", all_gather(4)},
      {"longer all_gather", all_gather(5)},
      {"all_to_all", all_to_all(4)},
      {"longer all_to_all", all_to_all(5)},
      {"sum", all_reduce(2, IntegerReduce::sum)},
      {"maximum", all_reduce(2, IntegerReduce::max)},
      {"longer sum", all_reduce(3, IntegerReduce::sum)},
      {"split", [](Communicator& comm, bool&) { comm.split(0); }},
      {"shared window", [](Communicator& comm, bool&) { comm.shared_window(64); }},
  };
}

}  // namespace zeroproof_test
