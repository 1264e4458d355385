// A thousand ranks as threads: quadratic costs in the number of ranks must stay small.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "common/comm/threads.hpp"

using zeroproof::Communicator;
using zeroproof::IntegerReduce;
using zeroproof::run_ranks;
using zeroproof::Span;
using zeroproof::ThreadWorld;

namespace {

/// Memory of this process in bytes: current, or peak.
std::int64_t resident_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == field) status >> kib;
  }
  return 1024 * kib;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ZP_SANITIZED 1
#endif
#endif
#if defined(ZP_SANITIZED)
constexpr bool sanitized = true;  // slow, with additional memory
#else
constexpr bool sanitized = false;
#endif

constexpr int num_ranks = 1024;
constexpr int num_rounds = sanitized ? 3 : 100;

/// Rank r sends one word to every (r % 7 + 1)-th rank after it, and nothing to the others.
bool sends(int from, int to) { return (to - from + num_ranks) % (from % 7 + 1) == 0; }
std::uint64_t value(int round, int from, int to) {
  return static_cast<std::uint64_t>(round) << 40 | static_cast<std::uint64_t>(from) << 20 |
         static_cast<std::uint64_t>(to);
}

struct RankData {
  std::vector<std::uint64_t> out = std::vector<std::uint64_t>(num_ranks);
  std::vector<std::uint64_t> in = std::vector<std::uint64_t>(num_ranks);
};

}  // namespace

TEST_CASE("nightly: many ranks: 1024 threads exchange small blocks") {
  const std::int64_t before = resident_bytes("VmRSS:");
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<std::int64_t> wrong{0};
  std::atomic<std::int64_t> most{0};
  ThreadWorld world(num_ranks);
  run_ranks(world, [&](Communicator& comm) {
    const int self = comm.rank();
    RankData data;
    std::vector<Span<const std::byte>> send(num_ranks);
    std::vector<Span<std::byte>> recv(num_ranks);
    for (int peer = 0; peer < num_ranks; ++peer) {
      const std::size_t i = static_cast<std::size_t>(peer);
      const Span<std::uint64_t> out(data.out), in(data.in);
      if (sends(self, peer)) send[i] = std::as_bytes(out.subspan(i, 1));
      if (sends(peer, self)) recv[i] = std::as_writable_bytes(in.subspan(i, 1));
    }
    for (int round = 0; round < num_rounds; ++round) {
      for (int peer = 0; peer < num_ranks; ++peer) data.out[peer] = value(round, self, peer);
      comm.all_to_all(send, recv);
      for (int peer = 0; peer < num_ranks; ++peer) {
        if (sends(peer, self) && data.in[peer] != value(round, peer, self)) ++wrong;
      }
    }
    const auto group = comm.split(self / 32);
    std::vector<std::uint64_t> flags(100, 1);
    comm.all_reduce(flags, IntegerReduce::sum);
    if (flags[99] != num_ranks) ++wrong;
    group->all_reduce(flags, IntegerReduce::sum);
    if (flags[99] != num_ranks * 32) ++wrong;
    if (self == 0) most = resident_bytes("VmHWM:");
    comm.barrier();
  });
  CHECK(wrong == 0);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  // Per pair of ranks: the call's counts (16 bytes) and the caller's own spans and words (48). Per rank: a stack
  // and the allocator's caches.
  const std::int64_t limit =
      std::int64_t{num_ranks} * num_ranks * 64 + std::int64_t{num_ranks} * (100 << 10);
  MESSAGE("1024 ranks: " << time.count() << " s, " << (most - before) / (1 << 20) << " MiB, limit "
                         << limit / (1 << 20));
  CHECK((sanitized || most - before < limit));
  CHECK(time < std::chrono::seconds(60));  // a few seconds on two cores; the machine may be busy
}
