// Stage 3 and the interfaces of a layer-by-layer pass: units from shards, persistent tensors,
// gradients bucket by bucket.

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/optimizer/params/param_gather.hpp"
#include "cuda/reduce/bucket_reduce.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

namespace step_stage3_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

OptimizerSetup setup_for(Communicator& comm, const ShardMap& shards) {
  OptimizerSetup setup;
  setup.layout = &odd_layout();
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = 3;
  setup.hyper.norm = NormForm::exact;
  return setup;
}

std::uint16_t param_bits(std::int64_t global, std::int64_t version) {
  return static_cast<std::uint16_t>(global * 7 + version);
}

/// Tensors [first, last) as a unit.
FlatRange unit_of(std::size_t first, std::size_t last) {
  const std::vector<TensorSlot>& tensors = odd_layout().tensors();
  return {tensors[first].begin,
          last == tensors.size() ? odd_layout().padded_numel() : tensors[last].begin};
}

/// A unit in memory that records writes; returns its first error.
std::string gather_problem(cuda::ParamGather& gather, const FlatRange& unit, std::int64_t version) {
  const FlatLayout& layout = odd_layout();
  constexpr std::uint16_t untouched = 0xABCD;
  std::vector<std::uint16_t> full(unit.numel(), untouched);
  gather.gather(unit, {full.data(), DType::bf16, unit.numel()});
  for (std::int64_t i = unit.begin; i < unit.end; ++i) {
    const std::uint16_t want = layout.tensor_at(i) < 0 ? untouched : param_bits(i, version);
    if (full[i - unit.begin] != want) return "wrong at " + std::to_string(i);
  }
  return "";
}

}  // namespace

TEST_CASE(
    "stage 3: units from shards have every element, no padding, and persistent tensors from their "
    "memory") {
  const FlatLayout& layout = odd_layout();
  for (const int world : {1, 2, 3, 5, 8}) {
    for (const std::int64_t persistent : {0, 3, 77, 100000}) {
      for (const bool ragged : {false, true}) {
        CAPTURE(world);
        CAPTURE(persistent);
        CAPTURE(ragged);
        const ShardMap shards =
            ragged ? ragged_map(layout, world) : ShardMap(layout.padded_numel(), world, 2048);
        std::vector<std::string> problems(world);
        run_grid({1, world}, [&](const GridPlace& place) {
          Communicator& comm = *place.comm;
          OptimizerSetup setup = setup_for(comm, shards);
          setup.persistent_numel = persistent;
          const std::vector<cuda::BucketPlan> plans = cuda::plan_buckets(setup);
          cuda::MemoryLedger ledger;
          cuda::GradMemory memory(ledger, true);
          const std::vector<FlatRange> own = shards.shard(comm.rank());
          const cuda::SharedMemoryGroup near(comm);
          const cuda::SharedMemoryGroup* const sharing = ragged ? &near : nullptr;
          cuda::ParamStore params(setup, own, sharing, ledger);
          cuda::ParamGather gather(setup, plans, memory, params, sharing, comm);
          const MemoryUse resting = ledger.use();
          std::string& problem = problems[comm.rank()];
          for (std::int64_t version = 1; version <= 2; ++version) {
            comm.barrier();  // as in phase unscale: a shard is not read while it is written
            for (const Piece& piece : layout.pieces(own)) {
              for (std::int64_t k = 0; k < piece.numel; ++k) {
                params.as<bf16>(piece)[k].bits = param_bits(piece.global_begin + k, version);
              }
            }
            gather.count_cast();
            if (gather.version() != version) problem = "version";
            gather.gather_all();
            for (const auto& [first, last] : std::vector<std::pair<std::size_t, std::size_t>>{
                     {0, 1}, {0, 3}, {2, 3}, {3, 5}, {5, 7}, {6, 7}}) {
              const std::string found = gather_problem(gather, unit_of(first, last), version);
              if (!found.empty()) problem = found;
            }
          }
          // A unit of persistent tensors is local: one rank may gather it alone.
          if (persistent >= 77 && comm.rank() == 0) {
            const std::string found = gather_problem(gather, unit_of(0, 2), 2);
            if (!found.empty()) problem = found;
          }
          comm.barrier();
          MemoryUse after = ledger.use();
          after.now[static_cast<std::size_t>(MemoryClass::comm_buffer)] =
              0;  // kept for the next gather
          if (after.now != resting.now) problem = "memory was not freed";
        });
        for (const std::string& problem : problems) CHECK(problem == "");
      }
    }
  }
}

TEST_CASE("stage 3: a view of the wrong size is an error") {
  const ShardMap shards(odd_layout().padded_numel(), 1, 2048);
  run_grid({}, [&](const GridPlace& place) {
    const OptimizerSetup setup = setup_for(*place.comm, shards);
    const std::vector<cuda::BucketPlan> plans = cuda::plan_buckets(setup);
    cuda::MemoryLedger ledger;
    cuda::GradMemory memory(ledger, true);
    const std::vector<FlatRange> own = shards.shard(0);
    cuda::ParamStore params(setup, own, nullptr, ledger);
    cuda::ParamGather gather(setup, plans, memory, params, nullptr, *place.comm);
    GuardedBuffer other(1024, DType::fp32);
    const auto refused = [&](const TensorView& view) {
      expect_error(ErrorCode::invalid_argument, [&] { gather.gather({0, 1024}, view); });
    };
    refused(other.view());
    refused({params.shard().data, DType::bf16, 1023});
    refused({nullptr, DType::bf16, 1024});
  });
}

TEST_CASE("stage 3: exposes the persistent tensors as param_full, with the parameters of stage 2") {
  for (const int ranks : {1, 3}) {
    World world = production_world({1, ranks}, 3);
    world.shards = ragged_map;
    world.setup.stage = 2;
    world.setup.hyper.norm = NormForm::exact;
    const WorldTruth truth = truth_of_one_rank(world);
    check_world(world, truth);
    world.setup.stage = 3;
    for (const std::int64_t persistent : {0, 2, 77, 1025}) {
      CAPTURE(persistent);
      world.setup.persistent_numel = persistent;
      check_world(world, truth);
      std::vector<FlatRange> ranges;
      for (const TensorSlot& slot : odd_layout().tensors()) {
        if (slot.numel > 0 && slot.numel <= persistent)
          ranges.push_back({slot.begin, slot.begin + slot.numel});
      }
      check_ranks(world, "ranges", [&](WorldRank& rank) {
        rank.load();
        const std::vector<ExposedBuffer> exposed = rank.optimizer->exposed(Phase::gather);
        const bool right = ranges.empty() ? exposed.empty()
                                          : exposed.size() == 1 && exposed.front().ranges == ranges;
        return right ? "" : "other ranges are exposed";
      });
    }
  }
}

TEST_CASE(
    "bucket reduce: buckets in any order of a micro-step, at every stage: G of whole gradients") {
  const FlatLayout& layout = odd_layout();
  for (const GradSum sum : {GradSum::tree, GradSum::binned}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int world : {1, 3}) {
        CAPTURE(stage);
        CAPTURE(world);
        const ShardMap shards = ragged_map(layout, world);
        std::vector<std::string> problems(world);
        run_grid({1, world}, [&](const GridPlace& place) {
          Communicator& comm = *place.comm;
          std::string& problem = problems[comm.rank()];
          OptimizerSetup setup = setup_for(comm, shards);
          setup.stage = stage;
          setup.grad_sum = sum;
          setup.micro_batches = 5;
          const std::vector<cuda::BucketPlan> plans = cuda::plan_buckets(setup);
          cuda::MemoryLedger ledger;
          cuda::GradMemory memory(ledger, true);
          cuda::BucketReduce reduce(setup, plans, cuda::host_ops(), memory, nullptr,
                                    {setup.comm, nullptr, nullptr});
          const auto numel = static_cast<std::size_t>(stage == 0 ? layout.padded_numel()
                                                                 : shards.shard_numel(comm.rank()));
          std::vector<float> whole(numel), by_bucket(numel);
          NumberedGrads leaves(RankModel(odd_tensors()), {DType::fp32, setup.micro_batches});
          reduce.reduce_leaves(leaves, {whole});
          const std::vector<std::int64_t> own = cuda::own_micro_batches(setup);
          for (std::size_t i = 0; i < static_cast<std::size_t>(cuda::micro_steps(setup)); ++i) {
            for (std::size_t b = plans.size(); b-- > 0;) {
              const std::size_t bucket = (b + i) % plans.size();
              const FlatRange range = plans[bucket].range;
              TensorView leaf{nullptr, DType::fp32, 0};
              std::vector<float> copy;
              if (i < own.size()) {
                const auto* from = static_cast<const float*>(leaves.micro_batch_grad(own[i]).data);
                copy.assign(from + range.begin, from + range.end);
                leaf = {copy.data(), DType::fp32, range.numel()};
              }
              reduce.reduce(bucket, static_cast<std::int64_t>(i), leaf);
              std::ranges::fill(
                  copy,
                  std::numeric_limits<float>::quiet_NaN());  // the caller may overwrite the memory
            }
          }
          reduce.finish({by_bucket});
          if (ledger.use().total_now != ledger.use().total_peak) problem = "memory was freed";
          const std::vector<FlatRange> ranges =
              stage == 0 ? std::vector<FlatRange>{{0, layout.padded_numel()}}
                         : shards.shard(comm.rank());
          for (const Piece& piece : layout.pieces(ranges)) {
            for (std::int64_t k = piece.local_begin; k < piece.local_begin + piece.numel; ++k) {
              const auto at = static_cast<std::size_t>(k);
              if (std::bit_cast<std::uint32_t>(whole[at]) !=
                  std::bit_cast<std::uint32_t>(by_bucket[at]))
                problem = "another sum";
            }
          }
        });
        for (const std::string& problem : problems) CHECK(problem == "");
      }
    }
  }
}

TEST_CASE("bucket reduce: a gradient of the wrong size is an error") {
  const ShardMap shards(odd_layout().padded_numel(), 1, 2048);
  run_grid({}, [&](const GridPlace& place) {
    const OptimizerSetup setup = setup_for(*place.comm, shards);
    const std::vector<cuda::BucketPlan> plans = cuda::plan_buckets(setup);
    cuda::MemoryLedger ledger;
    cuda::GradMemory memory(ledger, true);
    cuda::BucketReduce reduce(setup, plans, cuda::host_ops(), memory, nullptr,
                              {setup.comm, nullptr, nullptr});
    std::vector<float> values(4096);
    const auto refused = [&](std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) {
      expect_error(ErrorCode::invalid_argument, [&] { reduce.reduce(bucket, micro_step, leaf); });
    };
    refused(plans.size(), 0, {values.data(), DType::fp32, 2048});
    refused(0, 0, {values.data(), DType::fp32, 2047});
    refused(0, 0, {values.data(), DType::bf16, 2048});
    refused(0, 0, {nullptr, DType::fp32, 2048});
    refused(0, 1, {values.data(), DType::fp32, 2048});  // there is one micro-batch
    refused(0, -1, {values.data(), DType::fp32, 2048});
  });
}

}  // namespace step_stage3_test
