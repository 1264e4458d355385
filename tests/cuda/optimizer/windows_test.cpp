// Ranks of one machine that read each other's gradients, nodes and shards in place: the bits of one
// rank, on any distribution over machines.

#include "tests/cuda/optimizer/production_world.hpp"

#include <cstring>

#include "common/base/error.hpp"
#include "common/comm/hosted_communicator.hpp"
#include "common/comm/recording.hpp"
#include "common/comm/threads.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"

namespace windows_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

using Hosts = std::vector<std::string>;

/// For ranks, which are threads: doctest's assertions are used on the main thread only.
void require(bool ok, const char* condition) {
  if (!ok)
    fail(ErrorCode::internal, std::string("not true: ") + condition, "checked on a rank",
         "see this test");
}

/// Computes its gradients in the optimizer's memory, if it provides some.
class GradsInPlace final : public DistributedOptimizer {
 public:
  explicit GradsInPlace(std::unique_ptr<DistributedOptimizer> inner) : inner_(std::move(inner)) {}

  void load_state(const FullState& state) override {
    inner_->load_state(state);
    place_ = inner_->leaf_buffer();
  }
  void run_phase(Phase phase, GradSource& leaves) override {
    Placed placed(leaves, place_);
    inner_->run_phase(phase, placed);
  }
  bool skipped() const override { return inner_->skipped(); }
  std::vector<ExposedBuffer> exposed(Phase phase) override { return inner_->exposed(phase); }
  void overwritten(Phase phase) override { inner_->overwritten(phase); }
  std::vector<ExposedBuffer> storage() override { return inner_->storage(); }
  std::string damaged_guard() const override { return inner_->damaged_guard(); }
  LossScalerState loss_scaler() const override { return inner_->loss_scaler(); }
  std::int64_t applied_steps() const override { return inner_->applied_steps(); }
  MemoryUse memory() const override { return inner_->memory(); }

 private:
  class Placed final : public GradSource {
   public:
    Placed(GradSource& inner, const TensorView& place) : inner_(inner), place_(place) {}
    TensorView micro_batch_grad(std::int64_t micro_batch) override {
      const TensorView leaf = inner_.micro_batch_grad(micro_batch);
      if (place_.data == nullptr || leaf.numel == 0) return leaf;
      std::memcpy(place_.data, leaf.data, static_cast<std::size_t>(leaf.num_bytes()));
      return place_;
    }
    std::int64_t num_tokens(std::int64_t micro_batch) const override {
      return inner_.num_tokens(micro_batch);
    }
    bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
      return inner_.has_grad(micro_batch, tensor);
    }

   private:
    GradSource& inner_;
    const TensorView place_;
  };

  std::unique_ptr<DistributedOptimizer> inner_;
  TensorView place_;
};

World windows_world(int ranks, std::int64_t micro_batches, Windows windows) {
  World world = production_world({1, ranks}, micro_batches);
  world.setup.windows = windows;
  world.setup.guards = true;
  return world;
}

void put_on(World& world, const Hosts& hosts) {
  world.wrap = [hosts](Communicator& comm) {
    return std::make_unique<HostedCommunicator>(comm, hosts);
  };
}

/// Calls work(comm) on every rank of a world with hosts; it throws if a check fails.
template <class Work>
void on_hosts(const Hosts& hosts, const Work& work) {
  ThreadWorld world(static_cast<int>(hosts.size()));
  CHECK_NOTHROW(run_ranks(world, [&](Communicator& inner) {
    HostedCommunicator comm(inner, hosts);
    work(comm);
  }));
}

}  // namespace

TEST_CASE("SharedMemoryGroup: ranks find the ranks with shared memory") {
  on_hosts({"a", "b", "a", "b", "c"}, [](Communicator& comm) {
    const cuda::SharedMemoryGroup near(comm);
    require(near.any() && !near.all(), "some are near");
    require(near.machines() == std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4}},
            "three machines");
    require(near.place(3) == 1 && near.machine_of(3) == 1 && near.near(comm.rank()), "places");
    require((near.group() == nullptr) == (comm.rank() == 4), "the last one is alone");
    if (near.group() != nullptr) require(near.group()->world_size() == 2, "two each");
  });
  on_hosts({"a", "a", "a"}, [](Communicator& comm) {
    require(cuda::SharedMemoryGroup(comm).all() && cuda::SharedMemoryGroup(comm).group() == &comm,
            "all on one machine");
  });
  on_hosts({"a", "b"}, [](Communicator& comm) {
    require(!cuda::SharedMemoryGroup(comm).any() &&
                cuda::SharedMemoryGroup(comm).machines().size() == 2,
            "every rank alone");
  });
  on_hosts({"!no", "a", "!no", "a"}, [](Communicator& comm) {
    const cuda::SharedMemoryGroup near(comm);
    require(near.machines() == std::vector<std::vector<int>>{{0}, {1, 3}, {2}},
            "a name does not imply shared memory");
    require((near.group() == nullptr) == (comm.rank() % 2 == 0), "only two have a group");
  });
  on_hosts({"", "", "x"}, [](Communicator& comm) {
    require(!cuda::SharedMemoryGroup(comm).any(), "no name, no shared memory");
  });
}

TEST_CASE(
    "windows: on one machine every stage, order and number of micro-batches has the bits of one "
    "rank") {
  for (const std::int64_t m : {1, 3, 7, 8}) {
    World world = windows_world(1, m, Windows::off);
    world.make =
        production(m % 2 == 1 && m != 7);  // in a skipped step only phases guarantee the limbs
    world.setup.grad_dtype = m == 3 ? DType::bf16 : DType::fp32;
    world.overflow_step = m == 7 ? 1 : 0;
    world.setup.scaler.kind = LossScalerKind::dynamic;
    const WorldTruth truth = truth_of_one_rank(world);
    for (const Windows windows : {Windows::on, Windows::params}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const int ranks : {2, 3, 5}) {
          for (const MicroBatchOrder order :
               {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
            world.setup.windows = windows;
            world.setup.stage = stage;
            world.setup.order = order;
            world.grid.ranks = ranks;
            check_world(world, truth, std::string(name(windows)));
          }
        }
      }
    }
  }
}

TEST_CASE("windows: gradients computed in shared memory are not copied, and have the same bits") {
  for (const std::int64_t m : {3, 8}) {
    World world = windows_world(3, m, Windows::on);
    world.make = [](const OptimizerSetup& setup) {
      return std::make_unique<GradsInPlace>(production(true)(setup));
    };
    world.setup.grad_dtype = m == 3 ? DType::fp16 : DType::fp32;
    const WorldTruth truth = truth_of_one_rank(world);
    for (const int stage : {0, 1, 2, 3}) {
      world.setup.stage = stage;
      check_world(world, truth, "in place");
    }
  }
}

TEST_CASE(
    "windows: a shared gradient buffer exists where ranks share memory and compute gradients") {
  const auto numel_of = [](Windows windows, std::int64_t m, int stage) {
    World world = windows_world(3, m, windows);
    world.setup.stage = stage;
    std::vector<std::int64_t> numel(3);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      numel[place.number] = rank.optimizer->leaf_buffer().numel;
    });
    return numel;
  };
  using Numels = std::vector<std::int64_t>;
  const std::int64_t all = odd_layout().padded_numel();
  CHECK(numel_of(Windows::off, 3, 1) == Numels{0, 0, 0});
  CHECK(numel_of(Windows::on, 3, 1) == Numels{all, all, all});
  CHECK(numel_of(Windows::params, 2, 2) == Numels{all, all, 0});
}

TEST_CASE(
    "windows: several machines, windows inside, messages between them, the bits of one rank") {
  const std::vector<Hosts> places = {{"a", "a", "b"},
                                     {"a", "b", "a", "b", "a"},
                                     {"a", "a", "a", "b", "c"},
                                     {"a", "b", "c"},
                                     {"a", "a", "b", "b", "b", "b", "c"}};
  for (const std::int64_t m : {3, 7, 16}) {
    World world = windows_world(1, m, Windows::off);
    world.make = production(m == 7);
    world.setup.grad_dtype = m == 16 ? DType::bf16 : DType::fp32;
    const WorldTruth truth = truth_of_one_rank(world);
    for (const Hosts& hosts : places) {
      put_on(world, hosts);
      world.grid.ranks = static_cast<int>(hosts.size());
      for (const Windows windows : {Windows::on, Windows::params}) {
        for (const int stage : {0, 1, 2, 3}) {
          for (const MicroBatchOrder order :
               {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
            world.setup.windows = windows;
            world.setup.stage = stage;
            world.setup.order = order;
            check_world(world, truth, std::string(name(windows)));
          }
        }
      }
    }
  }
}

namespace {

/// Of one step of stage 1, by all ranks. owned: elements of each rank's shard.
std::int64_t sent(const Hosts& hosts, Windows windows, std::int64_t micro_batches = 8,
                  DType grad_dtype = DType::fp32, std::vector<std::int64_t>* owned = nullptr) {
  World world = windows_world(static_cast<int>(hosts.size()), micro_batches, windows);
  world.setup.stage = 1;
  world.setup.grad_dtype = grad_dtype;
  world.shards = World::contract_map(4096);
  std::vector<Traffic> traffic(hosts.size());
  if (owned != nullptr) owned->resize(hosts.size());
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    HostedCommunicator hosted(*rank.setup.comm, hosts);
    RecordingCommunicator comm(hosted);
    rank.setup.comm = &comm;
    rank.load();
    comm.reset();
    rank.prepare_grads(1);
    rank.optimizer->step(rank.grads);
    const auto at = static_cast<std::size_t>(place.number);
    traffic[at] = comm.traffic();
    if (owned != nullptr) (*owned)[at] = rank.shards.shard_numel(place.number);
    rank.optimizer.reset();
  });
  std::int64_t bytes = 0;
  for (const Traffic& rank : traffic) {
    bytes +=
        rank.of(Collective::all_to_all).bytes_sent + rank.of(Collective::all_gather).bytes_sent;
  }
  return bytes;
}

}  // namespace

TEST_CASE(
    "windows: ranks of one machine send no messages, and machines send each other nodes "
    "once") {
  constexpr std::int64_t agreement =
      4 * 3 * 16;  // digests of the step's scalars, from every rank to every other
  CHECK(sent({"a", "a", "a", "a"}, Windows::on) == agreement);
  CHECK(sent({"a", "a", "a", "a"}, Windows::params) == agreement);
  const std::int64_t messages = sent({"a", "a", "a", "a"}, Windows::off) - agreement;
  const std::int64_t two = sent({"a", "a", "b", "b"}, Windows::params) - agreement;
  CHECK(two > 0);
  // A rank receives one node from the other machine instead of three from three ranks; a machine
  // receives the other one's half of the parameters once, instead of three quarters for each rank.
  CHECK(two * 3 == messages);
}

TEST_CASE("windows: the only leaf of a machine is sent in its own type") {
  const Hosts hosts = {"a", "a", "b"};
  std::vector<std::int64_t> owned;
  const std::int64_t wide = sent(hosts, Windows::on, 3, DType::fp32, &owned);
  // Leaf 2 is the only leaf of the second machine, for the owners of the first; leaves 0 and 1 are
  // one node.
  CHECK(wide - sent(hosts, Windows::on, 3, DType::bf16) == 2 * (owned[0] + owned[1]));
  CHECK(owned[0] > 0);
}

TEST_CASE("windows: one copy of the parameters is one buffer") {
  World world = windows_world(3, 3, Windows::params);
  world.setup.stage = 1;
  std::vector<const void*> places(3);
  std::vector<std::int64_t> held(3);
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    rank.load();
    const ExposedBuffer full = rank.optimizer->exposed(Phase::gather).front();
    require(full.shared, "other ranks write it too");
    places[place.number] = full.view.data;
    const MemoryUse use = rank.optimizer->memory();
    held[static_cast<std::size_t>(place.number)] =
        use.now[static_cast<std::size_t>(MemoryClass::param_full)] +
        use.now[static_cast<std::size_t>(MemoryClass::param_shard)];
    rank.setup.comm->barrier();
  });
  CHECK(places[1] == places[0]);
  CHECK(places[2] == places[0]);
  CHECK(held == std::vector<std::int64_t>{2 * odd_layout().padded_numel(), 0, 0});
}

TEST_CASE("windows: writes through the view of a shard are in the shared copy") {
  World world = windows_world(3, 3, Windows::params);
  world.setup.stage = 1;
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    rank.load();
    const ExposedBuffer shard = rank.optimizer->exposed(Phase::cast).front();
    for (std::int64_t i = 0; i < shard.view.numel; ++i) {
      store_element(shard.view, i, static_cast<float>(1 + place.number));
    }
    rank.optimizer->overwritten(Phase::cast);
    rank.setup.comm->barrier();
    const TensorView full = rank.optimizer->exposed(Phase::gather).front().view;
    for (int owner = 0; owner < 3; ++owner) {
      for (const FlatRange& range : rank.shards.shard(owner)) {
        require(load_element(full, range.begin) == static_cast<float>(1 + owner),
                "an owner's value");
        require(load_element(full, range.end - 1) == static_cast<float>(1 + owner),
                "its last value");
      }
    }
    rank.setup.comm->barrier();
  });
  CHECK(world.setup.windows == Windows::params);
}

}  // namespace windows_test
