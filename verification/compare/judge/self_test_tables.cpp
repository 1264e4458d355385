#include <bit>
#include <cmath>
#include <cstdint>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "common/layout/peer_layouts.hpp"
#include "common/layout/process_grid.hpp"
#include "common/step/portable_math64.hpp"
#include "reference/step_counts.hpp"
#include "verification/compare/judge/self_test.hpp"
#include "verification/model/byte_gpt_cuts.hpp"

namespace zeroproof::verification {
namespace {

void add(Hasher& hasher, std::int64_t value) { hasher.add(static_cast<std::uint64_t>(value)); }
void add(Hasher& hasher, float value) {
  add(hasher, std::int64_t{std::bit_cast<std::uint32_t>(value)});
}
void add(Hasher& hasher, const FlatRange& range) {
  add(hasher, range.begin);
  add(hasher, range.end);
}

/// Every pattern of the narrow formats, and conversions of fp32 patterns over the whole range to
/// the two parameter formats.
Digest formats() {
  Hasher hasher;
  for (std::uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    add(hasher, to_float(bf16{static_cast<std::uint16_t>(bits)}));
    add(hasher, to_float(fp16{static_cast<std::uint16_t>(bits)}));
    if (bits <= 0xFFU) add(hasher, to_float(e4m3{static_cast<std::uint8_t>(bits)}));
    if (bits <= 0xFFU) add(hasher, to_float(e5m2{static_cast<std::uint8_t>(bits)}));
    // The low half: below, at and above the midpoints of both formats.
    for (const std::uint32_t low :
         {0x0000U, 0x1000U, 0x3000U, 0x7FFFU, 0x8000U, 0x8001U, 0xF001U}) {
      const auto value = std::bit_cast<float>(bits << 16 | low);
      add(hasher, std::int64_t{to_bf16(value).bits});
      add(hasher, std::int64_t{to_fp16(value).bits});
    }
  }
  return hasher.digest();
}

Digest functions() {
  Hasher hasher;
  for (int i = -100; i <= 1100; ++i) hasher.add(portable_math64::cos_pi(i / 1000.0));
  for (int i = -1500; i <= 1500; ++i) hasher.add(portable_math64::exp(i * 0.51));
  for (int i = -1100; i <= 1050; ++i)
    hasher.add(portable_math64::log(0x1.5p0 * std::ldexp(1.0, i)));
  for (int i = 1; i <= 1000; ++i) hasher.add(portable_math64::log(i / 500.0));
  return hasher.digest();
}

Digest random_words() {
  Hasher hasher;
  for (const std::uint64_t seed : {1ULL, 0xFEDCBA9876543210ULL}) {
    const Philox philox(seed, 0x53520001, 7);
    for (std::uint64_t i = 0; i < 100; ++i) {
      const std::uint64_t index = i < 50 ? i : 0x100000000ULL * (i - 49) - 3;
      hasher.add(std::uint64_t{philox.word(index)});
      hasher.add(philox.below(index, 1000 + i));
      add(hasher, philox.uniform(index));
      add(hasher, philox.bell(index));
    }
  }
  return hasher.digest();
}

const FlatLayout& tiny_layout() {
  static const FlatLayout layout(workload::byte_gpt_params({2, 20, 4, 37, 13}));
  return layout;
}

constexpr std::uint64_t steps[] = {0,  1,  2,  3,  4,  5,  6,  9,  10, 11, 13,  17,
                                   20, 21, 22, 23, 25, 28, 29, 30, 31, 32, 1000};

/// Three groups under one schedule: the scalars of steps around its corners, and of one far after
/// its end.
void add_schedule(Hasher& hasher, const ScheduleConfig& schedule) {
  GroupRule vectors;
  vectors.name = "vectors";
  vectors.vectors = true;
  vectors.weight_decay_mult = 0;
  GroupRule up;
  up.name = "up";
  up.match = {"*.mlp.?p.*", "*bias"};
  up.lr_mult = 0.5;
  up.min_lr = 1e-4;
  const ParamGroups groups = make_param_groups({vectors, up}, schedule, tiny_layout());
  for (std::size_t i = 0; i < tiny_layout().tensors().size(); ++i) {
    add(hasher, std::int64_t{groups.of(static_cast<std::int64_t>(i))});
  }
  OptimizerHyper hyper;
  hyper.lr = 3e-3;
  hyper.weight_decay = 0.1;
  reference::StepCounts counts;
  for (const std::uint64_t step : steps) {
    counts.applied_steps = step;
    std::vector<StepScalars> scalars = reference::scalars_of_step(hyper, groups, counts, 3, 7, 3);
    hasher.add(TensorView{scalars.data(), DType::u32,
                          static_cast<std::int64_t>(scalars.size()) * num_step_scalar_words});
  }
}

Digest schedules() {
  Hasher hasher;
  const std::size_t tails = names_of(WsdShape{}).size();
  const auto add_shape = [&](DecayShape decay, std::size_t tail, std::size_t turn) {
    ScheduleConfig schedule;
    schedule.unit = turn == 1 ? ScheduleUnit::samples : ScheduleUnit::steps;
    schedule.first_is_zero = turn == 2;
    schedule.warmup = 5;
    schedule.warmup_init_lr = 1e-4;
    schedule.decay = decay;
    schedule.decay_end = 31;
    schedule.min_lr = 2e-4;
    schedule.wsd_decay = 11;
    schedule.wsd_shape = static_cast<WsdShape>(tail);
    schedule.weight_decay_ramp = static_cast<RampShape>(turn);
    schedule.weight_decay_begin = 0.02;
    schedule.weight_decay_end = 23;
    add_schedule(hasher, schedule);
  };
  for (std::size_t turn = 0; turn < names_of(RampShape{}).size(); ++turn) {
    for (std::size_t decay = 0; decay < static_cast<std::size_t>(DecayShape::table); ++decay) {
      add_shape(static_cast<DecayShape>(decay), 0, turn);
    }
    for (std::size_t tail = 1; tail < tails; ++tail) add_shape(DecayShape::wsd, tail, turn);
  }
  return hasher.digest();
}

/// The other shapes of warm-up, and rates from a table that is shorter than the run.
Digest warmups() {
  Hasher hasher;
  for (const WarmupShape shape : {WarmupShape::cosine, WarmupShape::log}) {
    for (const std::int64_t warmup : {1, 2, 7, 1000}) {
      ScheduleConfig schedule;
      schedule.first_is_zero = warmup == 7;
      schedule.warmup = warmup;
      schedule.warmup_init_lr = 1e-4;
      schedule.warmup_shape = shape;
      schedule.decay = DecayShape::cosine;
      schedule.decay_end = warmup + 31;
      add_schedule(hasher, schedule);
    }
  }
  ScheduleConfig table;
  table.decay = DecayShape::table;
  table.rates = {1e-3, 0.1, 0, 1.0 / 3};
  for (std::int64_t n = 1; n <= 6; ++n)
    add(hasher, std::bit_cast<std::int64_t>(scheduled_lr(table, 3e-3, 1e-4, n)));
  return hasher.digest();
}

/// The numbering of elements, and the ownership of every rank in every layout.
Digest shards() {
  Hasher hasher;
  const FlatLayout& layout = tiny_layout();
  for (const TensorSlot& slot : layout.tensors()) {
    hasher.add(slot.name);
    add(hasher, slot.begin);
    add(hasher, slot.numel);
    hasher.add(layout.coordinates(slot.begin + slot.numel - 1));
  }
  add(hasher, layout.padded_numel());
  for (std::size_t kind = 0; kind < names_of(LayoutKind{}).size(); ++kind) {
    for (const int world : {1, 2, 3, 5, 8}) {
      const ShardMap map = make_shard_map(static_cast<LayoutKind>(kind), layout, world, 4096);
      for (int rank = 0; rank < world; ++rank) {
        for (std::size_t bucket = 0; bucket < map.buckets().size(); ++bucket) {
          add(hasher, map.buckets()[bucket]);
          for (const FlatRange& range : map.owned(bucket, rank)) add(hasher, range);
        }
        for (const FlatRange& range : map.shard(rank)) add(hasher, range);
        for (const Piece& piece : layout.pieces(map.shard(rank))) {
          for (const std::int64_t word : {piece.tensor, piece.tensor_begin, piece.global_begin,
                                          piece.local_begin, piece.numel}) {
            add(hasher, word);
          }
        }
      }
    }
  }
  return hasher.digest();
}

/// Every rank of every grid of up to 24 ranks.
Digest grids() {
  Hasher hasher;
  for (int dp = 1; dp <= 3; ++dp) {
    for (int cp = 1; cp <= 8; cp *= 2) {
      for (int tp = 1; cp * tp <= 8; tp *= 2) {
        const ProcessGrid grid{dp, cp, tp};
        hasher.add(grid.id());
        for (int rank = 0; rank < grid.world_size(); ++rank) {
          const ProcessGrid::Place place = grid.place(rank);
          for (const int word : {place.dp, place.cp, place.tp, grid.rank(place),
                                 grid.data_rank(rank), grid.tp_rank(rank)}) {
            add(hasher, std::int64_t{word});
          }
        }
      }
    }
  }
  return hasher.digest();
}

/// Every local element of every tensor, as TP ranks have them.
Digest cuts() {
  Hasher hasher;
  for (const int tp : {1, 2, 4}) {
    for (int rank = 0; rank < tp; ++rank) {
      const TpModel model = workload::byte_gpt_tp_model({2, 20, 4, 37, 13}, tp, rank);
      for (std::size_t i = 0; i < model.params.size(); ++i) {
        hasher.add(model.params[i].name);
        for (const std::int64_t dimension : model.params[i].shape) add(hasher, dimension);
        add(hasher, std::int64_t{model.placement[i].tp_replicated ? 1 : 0});
        for (std::int64_t e = 0; e < model.params[i].numel(); ++e)
          add(hasher, model.placement[i].global(e));
      }
    }
  }
  return hasher.digest();
}

}  // namespace

std::vector<SelfTestRow> self_test_tables() {
  return {{"float formats", formats},
          {"fp64 functions", functions},
          {"random words", random_words},
          {"schedules", schedules},
          {"warm-ups and rate tables", warmups},
          {"shards", shards},
          {"grids", grids},
          {"tensor parallel cuts", cuts}};
}

}  // namespace zeroproof::verification
