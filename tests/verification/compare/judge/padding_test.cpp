// A number in the padding of a buffer is a failure, in every phase and buffer with padding.

#include <doctest.h>

#include <cstring>

#include "tests/verification/compare/judge/judge_support.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Local indices of a buffer that belong to no tensor.
std::vector<std::int64_t> padding_of(const FlatLayout& layout, const ExposedBuffer& buffer) {
  std::vector<bool> padding(buffer.view.numel, true);
  for (const Piece& piece : layout.pieces(buffer.ranges)) {
    for (std::int64_t i = 0; i < piece.numel; ++i) padding[piece.local_begin + i] = false;
  }
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    if (padding[i]) indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}

/// Writes the number with these low bytes, which is not a NaN in any format here.
void write_number(const ExposedBuffer& buffer, std::int64_t index) {
  const std::int64_t width = num_bytes(buffer.view.dtype);
  std::memset(static_cast<std::byte*>(buffer.view.data) + index * width, 0x3C,
              static_cast<std::size_t>(width));
}

constexpr std::pair<Phase, BufferId> places[] = {
    {Phase::reduce, BufferId::grad_sum},   {Phase::unscale, BufferId::unscaled_grad},
    {Phase::clip, BufferId::grad},         {Phase::update, BufferId::exp_avg},
    {Phase::update, BufferId::exp_avg_sq}, {Phase::update, BufferId::max_exp_avg_sq},
    {Phase::update, BufferId::master},     {Phase::cast, BufferId::param_shard},
    {Phase::gather, BufferId::param_full},
};

}  // namespace

TEST_CASE("judge: padding stays poisoned, in every phase and buffer, first, last and in between") {
  TinyTraining run(DType::bf16, "adamw-amsgrad");
  for (const auto& place : places) {
    const auto phase = place.first;  // clang 14 captures no structured binding
    const auto id = place.second;
    // With one rank the shard is the parameter buffer.
    const CaseSpec spec = run.spec(id == BufferId::param_full ? 2 : 1, 1);
    for (const int which : {0, 1, 2}) {
      CAPTURE(name(id));
      CAPTURE(which);
      std::int64_t written = -1;
      const Judged judged = judge_candidate(
          run, spec, 1, [&](int rank, std::optional<Phase> now, DistributedOptimizer& o) {
            if (now != phase || rank != 0) return;
            const std::optional<ExposedBuffer> buffer = exposed(o, phase, id);
            REQUIRE(buffer);
            const std::vector<std::int64_t> padding = padding_of(run.experiment.layout(), *buffer);
            REQUIRE(padding.size() > 2);
            written = which == 0   ? padding.front()
                      : which == 1 ? padding[padding.size() / 2]
                                   : padding.back();
            write_number(*buffer, written);
          });
      REQUIRE(judged.first);
      CHECK(says(judged, "padding"));
      CHECK(judged.first->phase == phase);
      CHECK(judged.first->buffer == name(id));
      CHECK(judged.first->shard_index == written);
      CHECK(judged.first->step == 1);
    }
  }
}

TEST_CASE("judge: padding written during a load is reported, also on a later rank") {
  TinyTraining run(DType::bf16);
  const Judged judged = judge_candidate(
      run, run.spec(3, 2), 1, [&](int rank, std::optional<Phase> now, DistributedOptimizer& o) {
        if (now || rank != 2) return;
        const std::optional<ExposedBuffer> master = exposed(o, Phase::update, BufferId::master);
        write_number(*master, padding_of(run.experiment.layout(), *master).back());
      });
  REQUIRE(judged.first);
  CHECK(says(judged, "padding"));
  CHECK(judged.first->step == 0);
  CHECK(judged.first->rank == 2);
  CHECK(judged.first->buffer == "master");
}

TEST_CASE("judge: another NaN in padding is still poison") {
  TinyTraining run(DType::bf16);
  const Judged judged = judge_candidate(
      run, run.spec(1, 1), 1, [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
        if (now != Phase::update) return;
        const std::optional<ExposedBuffer> master = exposed(o, Phase::update, BufferId::master);
        auto* values = static_cast<float*>(master->view.data);
        values[padding_of(run.experiment.layout(), *master).front()] =
            std::numeric_limits<float>::quiet_NaN();
      });
  CHECK_FALSE(judged.first);
}
