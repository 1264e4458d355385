#include <cstring>
#include <string>

#include "cuda/host/base/isa.hpp"
#include "verification/bench/measure/limit_loops.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

/// A value the compiler cannot see through: with it every in-place loop writes back the bits it read.
constexpr std::uint32_t keep_bits = 0;

struct Adder {
  std::vector<Row>& rows;
  Data& data;
  WorkerTeam& team;
  std::string isa;

  void operator()(const std::string& shape, const char* variant, double num_bytes,
                  WorkerTeam::Body body) const {
    const auto run = [&team = team, numel = data.numel, loop = std::move(body)] { team.run(numel, loop); };
    rows.push_back({"limit " + shape + " " + isa + variant, num_bytes, data.numel, run, {}, shape});
  }
};

void add_shapes(const Adder& add, const LimitLoops& loops, Data& data) {
  const float* g = data.grad_sum.data();
  float* work = data.work_grad.data();
  float* p = data.threads.master.data();
  float* m = data.threads.exp_avg.data();
  float* v = data.threads.exp_avg_sq.data();
  float* x = data.max_exp_avg_sq.data();
  std::uint16_t* half = data.half.data();
  std::uint8_t* byte = data.bytes.data();
  const LimitLoops* l = &loops;
  add("R", "", 4, [=](std::int64_t b, std::int64_t e) {
    volatile std::uint32_t used = l->read(g + b, e - b);
    static_cast<void>(used);
  });
  add("RW", "", 8, [=](std::int64_t b, std::int64_t e) { l->in_place(keep_bits, work + b, e - b); });
  add("2R1W", "", 12, [=](std::int64_t b, std::int64_t e) { l->add(keep_bits, work + b, g + b, e - b); });
  add("R4W2", "", 6, [=](std::int64_t b, std::int64_t e) { l->narrow(g + b, half + b, e - b); });
  add("R4W2", " nt", 6, [=](std::int64_t b, std::int64_t e) { l->narrow_streamed(g + b, half + b, e - b); });
  add("R4W1", "", 5, [=](std::int64_t b, std::int64_t e) { l->narrow8(g + b, byte + b, e - b); });
  add("R4W1", " nt", 5, [=](std::int64_t b, std::int64_t e) { l->narrow8_streamed(g + b, byte + b, e - b); });
  add("R1W4", "", 5, [=](std::int64_t b, std::int64_t e) { l->widen8(byte + b, work + b, e - b); });
  add("R1W4", " nt", 5,
      [=](std::int64_t b, std::int64_t e) { l->widen8_streamed(byte + b, work + b, e - b); });
  add("R2W4", "", 6, [=](std::int64_t b, std::int64_t e) { l->widen16(half + b, work + b, e - b); });
  add("R2W4", " nt", 6,
      [=](std::int64_t b, std::int64_t e) { l->widen16_streamed(half + b, work + b, e - b); });
  add("3R2W", "", 20,
      [=](std::int64_t b, std::int64_t e) { l->momentum(keep_bits, g + b, p + b, m + b, e - b); });
  add("5R4W", "", 36, [=](std::int64_t b, std::int64_t e) {
    l->amsgrad(keep_bits, g + b, p + b, m + b, v + b, x + b, e - b);
  });
  add("4R3W", "", 28,
      [=](std::int64_t b, std::int64_t e) { l->adam(keep_bits, g + b, p + b, m + b, v + b, e - b); });
  add("4R3W+W2", "", 30, [=](std::int64_t b, std::int64_t e) {
    l->step(keep_bits, g + b, p + b, m + b, v + b, half + b, e - b);
  });
  add("4R3W+W2", " nt", 30, [=](std::int64_t b, std::int64_t e) {
    l->step_streamed(keep_bits, g + b, p + b, m + b, v + b, half + b, e - b);
  });
}

}  // namespace

void add_limit_rows(std::vector<Row>& rows, Data& data, WorkerTeam& team) {
  // Nobody reads this gradient: the rows that need its values restore them first.
  Adder{rows, data, team, "memset"}(
      "W", "", 4, [work = data.work_grad.data()](std::int64_t b, std::int64_t e) {
        std::memset(work + b, 0, static_cast<std::size_t>(e - b) * sizeof(float));
      });
  for (const Isa isa : cuda::host::supported_isas()) {
    add_shapes({rows, data, team, std::string(cuda::host::name(isa))}, limit_loops(isa), data);
  }
}

}  // namespace zeroproof::verification::bench
