// L-BFGS and its dot products: the two implementations, bit for bit, over worlds and layouts.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "common/comm/threads.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/lbfgs/lbfgs.hpp"
#include "reference/lbfgs/lbfgs.hpp"
#include "reference/operations.hpp"
#include "verification/training/lbfgs/rosenbrock.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// Fills that reach every branch of a dot product: ordinary, any bits, subnormal, huge, mostly cancelling.
std::vector<float> fill(int family, std::uint32_t stream, std::int64_t numel) {
  const Philox random(31, stream);
  std::vector<float> values;
  for (std::int64_t i = 0; i < numel; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const float x = random.bell(index);
    const auto bits = static_cast<std::uint32_t>(random.uniform(index + 1'000'000) * 0x1p32F);
    switch (family) {
      case 0:
        values.push_back(x);
        break;
      case 1: {
        const float any = std::bit_cast<float>(bits);
        values.push_back(std::isfinite(any) ? any : x);
        break;
      }
      case 2:
        values.push_back(x * 0x1p-140F);
        break;
      case 3:
        values.push_back(x * 0x1p125F);
        break;
      default:
        values.push_back(i % 2 == 0 ? 1.0F + x * 0x1p-20F : -1.0F);
    }
  }
  return values;
}

template <class Accumulate, class Finish>
double dot_of(const Accumulate& accumulate, const Finish& finish, const std::vector<float>& a,
              const std::vector<float>& b, DotLimbs& limbs) {
  accumulate(Exec{}, a, b, limbs);
  return finish(limbs);
}

std::uint64_t bits_of(double x) { return std::isnan(x) ? ~0ULL : std::bit_cast<std::uint64_t>(x); }

struct Run {
  std::vector<LbfgsReport> reports;
  std::vector<float> x;  // [padded_numel], NaN in padding
  std::vector<double> rho;
  double h = 0;
};

Run minimise(MakeLbfgsFn* make, MeanLossFn* mean, const LbfgsHyper& hyper, const ShardMap& shards,
             int steps, std::int64_t bad) {
  const FlatLayout& layout = rosenbrock_layout();
  const std::vector<float> start = rosenbrock_start(3);
  ThreadWorld world(shards.world_size());
  Run run;
  run.x.assign(start.size(), std::numeric_limits<float>::quiet_NaN());
  std::mutex mutex;
  run_ranks(world, [&](Communicator& comm) {
    LbfgsSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = &comm;
    setup.hyper = hyper;
    setup.exec.num_threads = comm.rank() % 2 + 1;
    const auto optimizer = make(setup);
    LbfgsState state;
    state.master = start;
    optimizer->load_state(state);
    RosenbrockClosure closure(setup, mean, {{1, bad, Disturbance::infinite_loss}});
    for (int i = 0; i < steps; ++i) {
      const LbfgsReport report = optimizer->step(closure);
      if (comm.rank() == 0) run.reports.push_back(report);
    }
    const LbfgsState end = optimizer->state();
    const std::lock_guard lock(mutex);
    for (const Piece& piece : layout.pieces(shards.shard(comm.rank()))) {
      std::copy_n(end.master.begin() + piece.local_begin, piece.numel,
                  run.x.begin() + piece.global_begin);
    }
    run.rho = end.rho;
    run.h = end.h;
  });
  return run;
}

void check_same(const Run& a, const Run& b) {
  CHECK(std::memcmp(a.x.data(), b.x.data(), a.x.size() * sizeof(float)) == 0);
  CHECK(a.rho == b.rho);
  CHECK(bits_of(a.h) == bits_of(b.h));
  REQUIRE(a.reports.size() == b.reports.size());
  for (std::size_t i = 0; i < a.reports.size(); ++i) {
    const LbfgsReport& x = a.reports[i];
    const LbfgsReport& y = b.reports[i];
    CHECK(x.end == y.end);
    CHECK(x.iterations == y.iterations);
    CHECK(x.evaluations == y.evaluations);
    CHECK(x.pairs_stored == y.pairs_stored);
    CHECK(x.pairs_skipped == y.pairs_skipped);
    CHECK(bits_of(x.first_loss) == bits_of(y.first_loss));
    CHECK(bits_of(x.loss) == bits_of(y.loss));
    CHECK(bits_of(x.max_abs_grad) == bits_of(y.max_abs_grad));
    CHECK(bits_of(x.gtd) == bits_of(y.gtd));
    CHECK(bits_of(x.step_length) == bits_of(y.step_length));
  }
}

/// Boundaries in the middle of tensors and chunks; from three ranks on, the last one owns nothing.
ShardMap odd_shards(int world) {
  const std::int64_t padded = rosenbrock_layout().padded_numel();
  Bucket bucket{{0, padded}, std::vector<std::vector<FlatRange>>(world)};
  const int owners = world > 2 ? world - 1 : world;
  std::int64_t begin = 0;
  for (int rank = 0; rank < owners && begin < padded; ++rank) {
    const std::int64_t end = rank + 1 == owners ? padded : std::min(padded, begin + 2 + rank * 517);
    bucket.owned[rank].push_back({begin, end});
    begin = end;
  }
  return ShardMap(padded, world, std::vector<Bucket>{bucket});
}

/// Every world with whole chunks and with uneven shards, against the reference on one rank.
void check_walks(const std::vector<int>& worlds, const std::vector<std::int64_t>& histories) {
  for (const LineSearch search : {LineSearch::none, LineSearch::armijo, LineSearch::strong_wolfe}) {
    for (const std::int64_t history : histories) {
      for (const std::int64_t bad : {0, 9}) {  // the ninth evaluation is infinite
        LbfgsHyper hyper;
        hyper.lr = search == LineSearch::none ? 0.25 : 1.0;
        hyper.max_iter = 7;
        hyper.history_size = history;
        hyper.line_search = search;
        const ShardMap whole(rosenbrock_layout().padded_numel(), 1, 4096);
        const Run one = minimise(reference::make_lbfgs, reference::mean_loss, hyper, whole, 3, bad);
        CHECK(one.reports.back().loss < one.reports.front().first_loss);
        for (const int world : worlds) {
          CAPTURE(world);
          const ShardMap chunks(rosenbrock_layout().padded_numel(), world, 1024);
          check_same(one, minimise(cuda::make_lbfgs, cuda::mean_loss, hyper, chunks, 3, bad));
          check_same(one,
                     minimise(cuda::make_lbfgs, cuda::mean_loss, hyper, odd_shards(world), 3, bad));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE(
    "dot products: limbs and value of both implementations, over families, sizes and boundaries") {
  for (int family = 0; family < 5; ++family) {
    for (const std::int64_t numel : {0, 1, 31, 1024, 16384, 40'001}) {
      const std::vector<float> a = fill(family, 1, numel);
      const std::vector<float> b = fill(family, 2, numel);
      DotLimbs ours, theirs, cut;
      const double x = dot_of(reference::dot_accumulate, reference::dot_finish, a, b, ours);
      const double y = dot_of(cuda::host::dot_accumulate, cuda::host::dot_finish, a, b, theirs);
      reference::dot_normalise(ours);
      cuda::host::dot_normalise(theirs);
      CAPTURE(family);
      CAPTURE(numel);
      CHECK(bits_of(x) == bits_of(y));
      CHECK(ours == theirs);
      for (std::int64_t begin = 0; begin < numel; begin += 7777) {
        const auto count = static_cast<std::size_t>(std::min<std::int64_t>(7777, numel - begin));
        cuda::host::dot_accumulate({3}, Span<const float>(a).subspan(begin, count),
                                   Span<const float>(b).subspan(begin, count), cut);
      }
      cuda::host::dot_normalise(cut);
      CHECK(cut == ours);
    }
  }
}

TEST_CASE("dot products: special values") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::vector<float>, std::vector<float>>> cases = {
      {{inf, 1}, {1, 1}},
      {{inf, 1}, {-1, 1}},
      {{inf, inf}, {1, -1}},
      {{inf}, {0.0F}},
      {{nan, 1}, {1, 1}},
      {{nan}, {0.0F}},
      {{inf, nan}, {1, 1}},
      {{-0.0F, 0.0F}, {1, -1}},
      {{1, -1}, {1, 1}},
      {{-3, 1}, {1, 3}},
      {{0x1p-149F}, {0x1p-149F}},
      {{-0x1p-149F}, {0x1p-149F}},
      {{0x1.fffffep127F, 0x1p-149F}, {0x1.fffffep127F, 0x1p-149F}},
      {{0x1.fffffep127F, -0x1.fffffep127F, 0x1p-149F},
       {0x1.fffffep127F, 0x1.fffffep127F, -0x1p-149F}}};
  for (const auto& both : cases) {
    DotLimbs ours, theirs;
    const double x =
        dot_of(reference::dot_accumulate, reference::dot_finish, both.first, both.second, ours);
    const double y =
        dot_of(cuda::host::dot_accumulate, cuda::host::dot_finish, both.first, both.second, theirs);
    CHECK(bits_of(x) == bits_of(y));
  }
}

TEST_CASE("L-BFGS: both implementations take the same steps on all ranks, with every line search") {
  check_walks({1, 3}, {1, 2, 100});
}

TEST_CASE("slow: L-BFGS: the same for more ranks and histories") {
  check_walks({1, 2, 3, 5, 8}, {1, 4, 100});
}

TEST_CASE("L-BFGS: mean losses") {
  std::vector<double> losses;
  for (int m = 1; m <= 20; ++m) {
    losses.push_back(1.0 / m);
    CHECK(bits_of(reference::mean_loss(losses, m)) == bits_of(cuda::mean_loss(losses, m)));
  }
}
