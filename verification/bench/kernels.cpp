#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/bench/limit_loops.hpp"
#include "verification/bench/machine.hpp"
#include "verification/bench/matrix_rows.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

template <class T>
void touch(WorkerTeam& team, const HugeBuffer<T>& buffer) {
  team.run(numel(buffer.span()), [&](std::int64_t begin, std::int64_t end) {
    std::memset(buffer.data() + begin, 0xFF, (end - begin) * sizeof(T));
  });
}

/// The buffers all rows share. Every implementation that is timed owns the state it advances, and all states start
/// from the same values, so that the results of the timed calls can be compared bit by bit after the rounds.
struct Data {
  Data(std::int64_t count, WorkerTeam& team)
      : numel(count),
        slice_numel(std::max(work_block, count / 8 / work_block * work_block)),
        rules(count, team),
        threads(count, team),
        fused(count, team),
        seven(count, team),
        serial(slice_numel, team),
        reference(slice_numel, team) {
    team.run(count, [this](std::int64_t begin, std::int64_t end) {
      fill_grad(0, begin, part(grad_sum, begin, end));
      fill_exp_avg_sq(begin, part(max_exp_avg_sq, begin, end));
    });
    restore_gradient(team);
    touch(team, bytes);
    for (const auto* buffer : {&half, &fused_param, &seven_param}) touch(team, *buffer);
  }

  void restore_gradient(WorkerTeam& team) const {
    team.run(numel, [this](std::int64_t begin, std::int64_t end) {
      std::ranges::copy(part(grad_sum, begin, end), part(work_grad, begin, end).begin());
    });
  }

  const std::int64_t numel;
  const std::int64_t
      slice_numel;  ///< elements of the one-thread rows: an eighth, but at least one block
  const OptimizerHyper hyper = {};
  /// Three micro-batches: 1/3072 is not a power of two, so unscaling rounds.
  const StepScalars scalars = host::step_scalars(hyper, 10, log2_loss_scale, 3);

  HugeBuffer<float> grad_sum{numel};   // never written after the start
  HugeBuffer<float> work_grad{numel};  // the gradient of the seven passes, which overwrite it
  HugeBuffer<std::uint16_t> half{numel};
  HugeBuffer<std::uint8_t> bytes{numel};
  State rules;  // advanced by the rows of all other rules, one after another
  HugeBuffer<float> max_exp_avg_sq{numel};  // of rules
  State threads;                            // adamw on all threads
  State fused, seven;
  HugeBuffer<std::uint16_t> fused_param{numel}, seven_param{numel};  // bf16
  State serial, reference;                                           // adamw on one thread

  // Results of the whole-step rows besides their buffers.
  double fused_norm = 0, seven_norm = 0;
  bool found_inf = false;     // by any row; the data has none
  bool norm_changed = false;  // the gradient is the same in every round, so its norm must be
  std::vector<double> zero_seconds = {};  // part of each call of the seven passes
};

class KernelRows {
 public:
  KernelRows(Data& data, WorkerTeam& team, int num_threads) : data_(data), team_(team) {
    exec_.num_threads = num_threads;
  }

  std::vector<Row> all() {
    add_operations();
    add_rules();
    rows_.push_back(
        {"fused step", 34, data_.numel, timed([this] { fused_step(); }), {"R", "4R3W+W2"}});
    const auto sample = [this] {
      data_.restore_gradient(team_);
      return seconds_of([this] { seven_passes(); });
    };
    rows_.push_back(
        {"seven passes", 62, data_.numel, sample, {"RW", "R", "R", "RW", "4R3W", "R4W2", "W"}});
    add_serial("adamw, 1 thread", host::adamw_update, data_.serial);
    add_serial("reference adamw, 1 thread", reference::adamw_update, data_.reference);
    add_limits();
    return std::move(rows_);
  }

 private:
  void add(const char* name, double num_bytes, const char* limit, std::function<void()> body) {
    rows_.push_back({name, num_bytes, data_.numel, timed(std::move(body)), {limit}});
  }

  void add_serial(const char* name, AdamwUpdateFn* update, const State& state) {
    rows_.push_back({name, 28, data_.slice_numel, timed([this, update, &state] {
                       update(Exec{}, {}, data_.scalars, part(data_.grad_sum, 0, data_.slice_numel),
                              state.master.span(), state.exp_avg.span(), state.exp_avg_sq.span(),
                              {});
                     })});
  }

  void add_operations() {
    const Exec exec = exec_;
    const Span<const float> grad = data_.grad_sum.span();
    const Span<float> work = data_.work_grad.span();
    const Data& data = data_;
    add("adamw", 28, "4R3W", [=, &data] {
      host::adamw_update(exec, {}, data.scalars, grad, data.threads.master.span(),
                         data.threads.exp_avg.span(), data.threads.exp_avg_sq.span(), {});
    });
    // A factor of 1 is multiplied like any other; it keeps the values the same over many rounds.
    add("unscale", 8, "RW", [=] { host::unscale(exec, 1.0F, work, work); });
    add("add_nodes", 12, "2R1W", [=] { host::add_nodes(exec, work, grad, work); });
    add("norm", 4, "R", [=] {
      NormLimbs limbs;
      host::grad_norm_accumulate(exec, grad, limbs);
    });
    add("norm exact", 4, "R", [=] {
      NormLimbs limbs;
      host::grad_norm_exact_accumulate(exec, grad, limbs);
    });
    add("norm one", 4, "R", [=] {
      NormLimbs limbs;
      host::grad_abs_accumulate(exec, grad, limbs);
    });
    add("norm inf", 4, "R", [=] {
      std::uint32_t amax = 0;
      host::grad_max_accumulate(exec, grad, amax);
    });
    add("grad stats", 4, "R", [=] {
      const GradSegment all{0, numel(grad), 0};
      GradStats stats;
      host::grad_stats(exec, grad, {&all, 1}, {&stats, 1});
    });
    add("norm p = 3", 8, "R", [=] { host::grad_norm_p(exec, grad, 3.0); });
    rows_.back().limits = {"R", "R"};  // every magnitude is divided by the largest
    add("fused finite", 4, "R",
        [=, &data] { host::fused_finite(exec, data.scalars.inv_scale, grad); });
    add("clip", 8, "RW", [=] { host::clip(exec, 1.0F, work, work); });
    add("clip value", 8, "RW", [=] { host::clip_value(exec, 100.0F, work); });
    add("cast to bf16", 6, "R4W2",
        [=, &data] { host::cast_to_bf16(exec, grad, as_format<bf16>(data.half)); });
    add("cast to fp16", 6, "R4W2",
        [=, &data] { host::cast_to_fp16(exec, grad, as_format<fp16>(data.half)); });
    add("cast to bf16, drawn", 6, "R4W2", [=, &data] {
      host::stochastic_cast_to_bf16(exec, {1, 1, 0}, grad, as_format<bf16>(data.half));
    });
    add("cast to e4m3", 5, "R4W1",
        [=, &data] { host::cast_to_e4m3(exec, grad, as_format<e4m3>(data.bytes)); });
    add("cast to e5m2", 5, "R4W1",
        [=, &data] { host::cast_to_e5m2(exec, grad, as_format<e5m2>(data.bytes)); });
    add("widen bf16", 6, "R2W4",
        [=, &data] { host::widen_bf16(exec, as_format<const bf16>(data.half), work); });
    add("widen fp16", 6, "R2W4",
        [=, &data] { host::widen_fp16(exec, as_format<const fp16>(data.half), work); });
    add("widen e4m3", 5, "R1W4",
        [=, &data] { host::widen_e4m3(exec, as_format<const e4m3>(data.bytes), work); });
    add("widen e5m2", 5, "R1W4",
        [=, &data] { host::widen_e5m2(exec, as_format<const e5m2>(data.bytes), work); });
  }

  StepScalars scalars_of(UpdateRule rule) const {
    OptimizerHyper hyper = data_.hyper;
    hyper.rule = rule;
    if (traits_of(rule).momentum()) hyper.momentum = 0.9;
    return host::step_scalars(hyper, 10, log2_loss_scale, 3);
  }

  /// Update rules other than plain adamw, and the second pass of the fused step.
  void add_rules() {
    const Exec exec = exec_;
    const Data& data = data_;
    const Span<const float> grad = data.grad_sum.span();
    const Span<float> p = data.rules.master.span(), m = data.rules.exp_avg.span(),
                      v = data.rules.exp_avg_sq.span();
    const Span<float> most = data.max_exp_avg_sq.span();
    const StepScalars adam = scalars_of(UpdateRule::adam), sgd = scalars_of(UpdateRule::sgd);
    const StepScalars ema = scalars_of(UpdateRule::sgd_ema), lion = scalars_of(UpdateRule::lion),
                      lamb = scalars_of(UpdateRule::lamb);
    add("adamw, amsgrad", 36, "5R4W", [=, &data] {
      host::adamw_update(exec, {true, false}, data.scalars, grad, p, m, v, most);
    });
    add("adam", 28, "4R3W", [=] { host::adam_update(exec, {}, adam, grad, p, m, v, {}); });
    add("adam, amsgrad", 36, "5R4W", [=] {
      host::adam_update(exec, {true, false}, adam, grad, p, m, v, most);
    });
    add("sgd", 12, "2R1W", [=] { host::sgd_update(exec, {}, sgd, grad, p, {}); });
    add("sgd, momentum", 20, "3R2W", [=] {
      host::sgd_update(exec, {true, false, false}, sgd, grad, p, m);
    });
    add("sgd, nesterov", 20, "3R2W", [=] {
      host::sgd_update(exec, {true, true, false}, sgd, grad, p, m);
    });
    add("sgd_ema", 20, "3R2W", [=] { host::sgd_ema_update(exec, {}, ema, grad, p, m); });
    add("lion", 20, "3R2W", [=] { host::lion_update(exec, {}, lion, grad, p, m); });
    add("lamb", 28, "4R3W", [=] { host::lamb_update(exec, {}, lamb, 0.5F, grad, p, m, v); });
    rows_.push_back({"lamb_norms",
                     16,
                     data.numel,
                     timed([=] {
                       TrustNorms norms;
                       host::lamb_norms(exec, {}, lamb, grad, p, m, v, norms);
                     }),
                     {"R", "R", "R", "R"}});
    const TensorView param{data.half.data(), DType::bf16, data.numel};
    const auto fused = [=, &data](const host::FusedOptions& options) {
      host::fused_update(exec, options, data.scalars, 0.5F, grad, data.rules.fused(), param);
    };
    add("fused adamw", 30, "4R3W+W2", [=] { fused({}); });
    add("fused adamw, drawn", 30, "4R3W+W2", [=] { fused({.draw = RoundingDraw{1, 10, 0}}); });
  }

  void note_norm(double norm, double& kept) const {
    data_.norm_changed = data_.norm_changed || (kept != 0 && norm != kept);
    kept = norm;
  }

  void fused_step() const {
    const Span<const float> grad_sum = data_.grad_sum.span();
    NormLimbs limbs;
    if (host::fused_finite_and_norm(exec_, data_.scalars.inv_scale, grad_sum, limbs))
      data_.found_inf = true;
    const double norm = host::grad_norm_finish(limbs);
    note_norm(norm, data_.fused_norm);
    host::fused_update(exec_, host::fused_options(data_.hyper), data_.scalars,
                       host::clip_coef(norm, data_.hyper.max_norm), grad_sum, data_.fused.fused(),
                       {data_.fused_param.data(), DType::bf16, data_.numel});
  }

  /// One pass for each operation, with a separate finite check and zero_grad, as in many training
  /// loops.
  void seven_passes() const {
    const Span<float> grad = data_.work_grad.span();
    if (host::unscale(exec_, data_.scalars.inv_scale, grad, grad)) data_.found_inf = true;
    if (host::fused_finite(exec_, 1.0F, grad)) data_.found_inf = true;
    NormLimbs limbs;
    host::grad_norm_accumulate(exec_, grad, limbs);
    const double norm = host::grad_norm_finish(limbs);
    note_norm(norm, data_.seven_norm);
    host::clip(exec_, host::clip_coef(norm, data_.hyper.max_norm), grad, grad);
    host::adamw_update(exec_, {}, data_.scalars, grad, data_.seven.master.span(),
                       data_.seven.exp_avg.span(), data_.seven.exp_avg_sq.span(), {});
    host::cast_to_bf16(exec_, data_.seven.master.span(), as_format<bf16>(data_.seven_param));
    data_.zero_seconds.push_back(seconds_of([this] { zero_gradient(); }));
  }

  void zero_gradient() const {
    team_.run(data_.numel, [this](std::int64_t begin, std::int64_t end) {
      std::memset(data_.work_grad.data() + begin, 0, (end - begin) * sizeof(float));
    });
  }

  /// Loops without arithmetic, one row for every access shape, instruction set and kind of store.
  void add_limits() {
    const Data& d = data_;
    const LimitBuffers buffers{.grad = d.grad_sum.data(),
                               .work = d.work_grad.data(),
                               .state = {d.threads.master.data(), d.threads.exp_avg.data(),
                                         d.threads.exp_avg_sq.data(), d.max_exp_avg_sq.data()},
                               .half = d.half.data(),
                               .byte = d.bytes.data()};
    rows_.push_back({"limit W memset", 4, d.numel, timed([this] { zero_gradient(); }), {}, "W"});
    for (const Isa isa : host::supported_isas()) {
      for (const LimitLoop& loop : limit_loops(isa)) {
        if (loop.narrow) continue;
        const std::string name = std::string("limit ") + loop.shape + " " +
                                 std::string(host::name(isa)) + (loop.streamed ? " nt" : "");
        const auto body = [this, buffers, &loop] {
          team_.run(data_.numel,
                    [&](std::int64_t begin, std::int64_t end) { loop(buffers, begin, end); });
        };
        rows_.push_back({name, loop.num_bytes, d.numel, timed(body), {}, loop.shape});
      }
    }
  }

  Data& data_;
  WorkerTeam& team_;
  Exec exec_;
  std::vector<Row> rows_;
};

template <class T>
bool same_bits(const HugeBuffer<T>& a, const HugeBuffer<T>& b) {
  return std::memcmp(a.data(), b.data(), std::min(a.num_bytes(), b.num_bytes())) == 0;
}

/// Up to the end of the shorter one.
bool same_bits(const State& a, const State& b) {
  return same_bits(a.master, b.master) && same_bits(a.exp_avg, b.exp_avg) &&
         same_bits(a.exp_avg_sq, b.exp_avg_sq);
}

/// How many times a row is faster than another, and than that if both ran at their limits.
void compare(Group& group, const std::string& name, const std::string& fast,
             const std::string& slow, double goal, bool at_least) {
  group.judge(name, slow, fast, goal, at_least);
  const double at_limit = ratio_to_limit(group.rows, *find(group.rows, fast)).per_round;
  if (at_limit <= 0) return;
  const double bound = group.figures.back().value *
                       ratio_to_limit(group.rows, *find(group.rows, slow)).per_round / at_limit;
  group.figures.push_back({name + ", if both ran at their limits", bound});
}

/// The fused step leaves the gradient sum for the next backward pass to overwrite, and a training loop that does the
/// same saves zero_grad anyway.
double speed_up_without_zero(const std::vector<Row>& rows, const Data& data) {
  const std::vector<double>& seven = find(rows, "seven passes")->seconds;
  std::vector<double> without;
  for (std::size_t i = 0; i < seven.size(); ++i)
    without.push_back(seven[i] - data.zero_seconds[i + 1]);  // the first is not kept
  return median_of(quotients(without, find(rows, "fused step")->seconds));
}

}  // namespace

void measure_kernels(const Options& options, Report& report) {
  const std::int64_t numel =
      options.numel.empty() ? options.mib * (std::int64_t{1} << 20) / 16 : options.numel.front();
  ZP_CHECK(numel % work_block == 0, ErrorCode::invalid_argument,
           "the kernel rows cannot have " + std::to_string(numel) + " elements",
           "their loops work on blocks of " + std::to_string(work_block),
           "choose a multiple of that");
  require_memory("the kernel rows", 70.0 * numel, "--mib or --numel");
  WorkerTeam team(options.threads);
  Data data(numel, team);
  KernelRows rows(data, team, options.threads);
  Group group{std::to_string(numel) + " elements: " + std::to_string(numel * 16 >> 20) +
                  " MiB of gradient, master and moments",
              rows.all()};
  measure(group.rows, options.rounds);
  report["machine"]["huge_page_share"] =
      this_machine().huge_page_share;  // with the memory of the rows
  report["numel"] = numel;
  group.judge_limit("adamw, of its limit's speed", "adamw", 0.90);
  compare(group, "fused step against seven passes", "fused step", "seven passes", 1.8, true);
  group.figures.push_back({"fused step against seven passes, without zero_grad",
                           speed_up_without_zero(group.rows, data)});
  compare(group, "reference against host adamw, 1 thread", "adamw, 1 thread",
          "reference adamw, 1 thread", 10, false);
  report.add(group);
  const bool norms =
      data.fused_norm == data.seven_norm && data.fused_norm > 0 && !data.norm_changed;
  report.check("adamw, all threads = reference, on the first eighth",
               same_bits(data.threads, data.reference));
  report.check("adamw, 1 thread = reference, on the first eighth",
               same_bits(data.serial, data.reference));
  report.check("fused = seven passes: master, exp_avg, exp_avg_sq",
               same_bits(data.fused, data.seven));
  report.check("fused = seven passes: bf16 parameters",
               same_bits(data.fused_param, data.seven_param));
  report.check("fused = seven passes: norm, in every round", norms);
  report.check("no overflow reported for finite gradients", !data.found_inf);
  measure_matrices(options, numel >= std::int64_t{1} << 20 ? 1024 : 64, team, report);
}

}  // namespace zeroproof::verification::bench
