#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/comm/mpi_communicator.hpp"
#include "common/comm/mpi_session.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/operations.hpp"
#include "verification/bench/limit_loops.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/bench/mpi_library.hpp"
#include "verification/bench/product_step.hpp"
#include "verification/bench/values.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/program/temporary_file.hpp"
#include "verification/compare/judge/native_bound.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/mpi_launch.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

constexpr const char* library_row = "library scatter + gather";
constexpr const char* all_reduce_row = "library all-reduce";

/// A setup of the production optimizer: a row with its own comparisons and check.
struct Variant {
  const char* name;
  Windows windows = Windows::off;
  bool leaf_there =
      false;  ///< the last gradient is computed in leaf_buffer() instead of the caller's memory
  bool more = false;     ///< M = 2 R + 1, so that some ranks hold two nodes, instead of M = R
  double goal_cold = 0;  ///< against the library's collectives as installed; 0: none
  double goal_warm = 0;  ///< the same with malloc that keeps its memory

  /// Whether gradients are read in place and parameters written in place.
  bool one_pass() const { return windows == Windows::params && leaf_there && !more; }
};

constexpr Variant variants[] = {
    {"product, messages", Windows::off, false, false, 1, 1},
    {"product, windows", Windows::on},
    {"product, windows, leaf there", Windows::on, true},
    {"product, one copy", Windows::params, true, false, 4, 2},
    {"product, one copy, M = 2 R + 1", Windows::params, true, true},
};

/// The production step at stage 1, fused: one bucket, fp32 gradients, a norm that clips.
class VariantStep {
 public:
  VariantStep(const Variant& variant, std::int64_t numel, Communicator& comm)
      : what_(case_of(variant, numel, comm.world_size())),
        layout_(layout_of(what_)),
        leaves_(what_, numel, own(what_.micro_batches, comm)),
        step_(what_, layout_, leaves_, State(0, numel).full(), comm) {
    if (variant.leaf_there) leaves_.move_last(step_.optimizer().leaf_buffer());
  }

  void run() { step_.optimizer().step(leaves_); }
  const FlatLayout& layout() const { return layout_; }
  std::int64_t micro_batches() const { return what_.micro_batches; }
  bool as_contract(const ContractResult& wanted) const { return step_.as_contract(wanted); }

 private:
  static ProductCase case_of(const Variant& variant, std::int64_t numel, int ranks) {
    return {.micro_batches = variant.more ? 2 * ranks + 1 : ranks,
            .stage = 1,
            .numel = numel,
            .bucket_numel = numel,
            .ranks = ranks,
            .windows = variant.windows};
  }
  static FlatRange own(std::int64_t count, const Communicator& comm) {
    return {count * comm.rank() / comm.world_size(), count * (comm.rank() + 1) / comm.world_size()};
  }

  ProductCase what_;
  FlatLayout layout_;
  Leaves leaves_;
  ProductStep step_;
};

/// Buffers and rows of one rank. Every row that updates owns the state it advances; all start from the same values.
class RankRows {
 public:
  RankRows(Communicator& comm, std::int64_t numel)
      : comm_(comm),
        ranks_(comm.world_size()),
        numel_(numel),
        shard_{numel / ranks_ * comm.rank(), numel / ranks_ * (comm.rank() + 1)},
        window_(comm.shared_window(
            numel * static_cast<std::int64_t>(sizeof(float) + sizeof(std::uint16_t)))) {
    ZP_CHECK(window_ != nullptr, ErrorCode::unavailable, "the ranks share no memory",
             "the measurement is of shared memory", "start them on one machine");
    for (const Variant& variant : variants)
      products_.push_back(std::make_unique<VariantStep>(variant, numel, comm));
    fill_grad(comm.rank(), 0, leaf_.span());
    std::ranges::copy(leaf_.span(), shared_leaf(comm.rank()));
    for (const auto* buffer : {&scattered_, &reduced_, &copied_})
      std::memset(buffer->data(), 0xFF, buffer->num_bytes());
    for (const auto* buffer : {&scattered_params_, &reduced_params_})
      std::memset(buffer->data(), 0xFF, buffer->num_bytes());
    window_->fence();
  }

  std::vector<Row> all() {
    for (std::size_t i = 0; i < std::size(variants); ++i) {
      add(variants[i].name, 0, [step = products_[i].get()] { step->run(); });
      if (!variants[i].one_pass()) continue;
      rows_.back().num_bytes = window_bytes() + 8;  // G is stored once and read once more
      rows_.back().limits = {"window pass"};
    }
    add(library_row, 0, [this] {
      library_.reduce_scatter(leaf_.span(), scattered_.span());
      update(scattered_.span(), scattered_state_,
             part(scattered_params_, shard_.begin, shard_.end));
      library_.all_gather(scattered_params_.span());
    });
    add(all_reduce_row, 0, [this] {
      library_.all_reduce(leaf_.span(), reduced_.span());
      update(reduced_.span(), reduced_state_, reduced_params_.span());
    });
    add(
        "limit memcpy", window_bytes(), [this] { copy_bytes(); }, "copy");
    for (const Isa isa : host::supported_isas()) {
      const Span<const LimitLoop> loops = limit_loops(isa);
      for (const bool streamed : {false, true}) {
        const auto of = [&](const char* shape, bool nt) {
          return std::ranges::find_if(loops, [&](const LimitLoop& loop) {
            return std::string_view(loop.shape) == shape && loop.streamed == nt;
          });
        };
        add(
            "limit window pass " + std::string(host::name(isa)) + (streamed ? " nt" : ""),
            window_bytes(),
            [this, read = of("R", false), step = of("4R3W+W2", streamed)] {
              pass_windows(*read, *step);
            },
            "window pass");
      }
    }
    add(
        "two fences", 0, [this] { window_->fence(), window_->fence(); }, "fences");
    add(
        "MPI_Barrier", 0, [this] { library_.barrier(); }, "barrier");
    return std::move(rows_);
  }

  /// Results of the timed calls, equally many per row. Collective; the same result on all ranks.
  void check(Report& report) {
    std::map<std::int64_t, ContractResult> wanted;  // by micro-batches
    for (std::size_t i = 0; i < std::size(variants); ++i) {
      const VariantStep& product = *products_[i];
      ContractResult& result = wanted[product.micro_batches()];
      if (result.master.empty()) result = contract_on_all(product);
      report.check(std::string(variants[i].name) + " = contract: master, moments, parameters",
                   on_all_ranks(product.as_contract(result)));
    }
    report.check("library reduce-scatter within the bound of R11 (native)",
                 within_bound(scattered_.data()));
    report.check("library all-reduce within the bound of R11 (native)",
                 within_bound(reduced_.data() + shard_.begin));
    report.check("library parameters are those of all ranks",
                 same_everywhere(scattered_params_) && same_everywhere(reduced_params_));
  }

 private:
  /// Necessary bytes per parameter of a step through windows that can use G before it is complete: leaves of the ranks
  /// and state are read, state and parameter written.
  double window_bytes() const { return 4.0 * ranks_ + 24 + 2; }

  void add(const std::string& name, double num_bytes, std::function<void()> body,
           const std::string& shape = {}) {
    rows_.push_back(
        {name, num_bytes, numel_, [this, body] { return seconds_of_all(body); }, {}, shape});
  }

  /// From a moment the ranks agree on until the last rank is done; the same number on all of them.
  double seconds_of_all(const std::function<void()>& body) {
    const auto now = [] {  // of the clock that all processes of a machine share
      return static_cast<std::uint64_t>(
          std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    };
    const auto latest = [this](std::uint64_t time) {
      comm_.all_reduce({&time, 1}, IntegerReduce::max);
      return time;
    };
    constexpr std::uint64_t notice =
        300'000;  // ns, so that every rank receives the moment before it
    const std::uint64_t start = latest(now()) + notice;
    while (now() < start) std::this_thread::yield();
    body();
    return static_cast<double>(latest(now()) - start) * 1e-9;
  }

  /// The fused update of the library rows, without a norm.
  void update(Span<const float> grad, State& state, Span<std::uint16_t> params) {
    std::int64_t& steps = &state == &reduced_state_ ? reduced_steps_ : scattered_steps_;
    const OptimizerHyper hyper = step_hyper(false);
    const StepScalars scalars =
        host::step_scalars(hyper, steps_before + ++steps, log2_loss_scale, ranks_);
    host::fused_update({}, host::fused_options(hyper), scalars, 1, grad, state.fused(),
                       {params.data(), DType::bf16, numel(params)});
  }

  /// A gradient of a rank in shared memory, and one copy of the parameters that all ranks share: bf16 [numel].
  float* shared_leaf(int rank) const { return reinterpret_cast<float*>(window_->of(rank).data()); }
  std::uint16_t* shared_params() const {
    return reinterpret_cast<std::uint16_t*>(shared_leaf(0) + numel_);
  }

  /// Bytes of a step through windows, half of them read and half written, as one large copy after another.
  void copy_bytes() const {
    for (std::size_t left = window_bytes() * shard_.numel() / 2; left > 0;) {
      const std::size_t piece = std::min(left, copied_.num_bytes());
      std::memcpy(copied_.data(), leaf_.data(), piece);
      left -= piece;
    }
  }

  /// The accesses of a step through windows, with next to no arithmetic; the state keeps its bits.
  void pass_windows(const LimitLoop& read, const LimitLoop& step) const {
    constexpr std::int64_t block = 4096;  // elements that the step adds up at a time
    const LimitBuffers first{.grad = shared_leaf(0) + shard_.begin,
                             .state = {limit_state_.master.data(), limit_state_.exp_avg.data(),
                                       limit_state_.exp_avg_sq.data()},
                             .half = shared_params() + shard_.begin};
    for (std::int64_t b = 0; b < shard_.numel(); b += block) {
      const std::int64_t end = std::min(b + block, shard_.numel());
      for (int rank = 1; rank < ranks_; ++rank)
        read({.grad = shared_leaf(rank) + shard_.begin}, b, end);
      step(first, b, end);
    }
  }

  bool on_all_ranks(bool ok) const {
    std::uint64_t failed = ok ? 0 : 1;
    comm_.all_reduce({&failed, 1}, IntegerReduce::max);
    return failed == 0;
  }

  bool same_everywhere(const HugeBuffer<std::uint16_t>& buffer) const {
    const Digest mine = raw_digest(buffer.data(), static_cast<std::int64_t>(buffer.num_bytes()));
    Digest first = mine;
    comm_.broadcast(std::as_writable_bytes(Span<Digest>(&first, 1)), 0);
    return on_all_ranks(std::memcmp(&first, &mine, sizeof mine) == 0);
  }

  /// Computed by rank 0.
  ContractResult contract_on_all(const VariantStep& product) const {
    const std::size_t size = numel_;
    ContractResult result{std::vector<float>(size), std::vector<float>(size),
                          std::vector<float>(size), std::vector<bf16>(size)};
    const std::int64_t count = product.micro_batches();
    if (comm_.rank() == 0)
      result = contract_steps({product.layout(), count, count, scattered_steps_});
    for (auto* values : {&result.master, &result.exp_avg, &result.exp_avg_sq})
      comm_.broadcast(std::as_writable_bytes(Span<float>(*values)), 0);
    comm_.broadcast(std::as_writable_bytes(Span<bf16>(result.param)), 0);
    return result;
  }

  /// The bound of R11 (native): the library adds one gradient per rank in its own order.
  bool within_bound(const float* sums) const {
    class ShardGrads final : public GradProvider {
     public:
      explicit ShardGrads(const FlatRange& shard) : shard_(shard) {
        leaf_.values = GuardedBuffer(shard.numel(), DType::fp32);
      }
      const GradCache::Grad& micro_batch_grad(std::int64_t micro_batch) override {
        fill_grad(micro_batch, shard_.begin, leaf_.values.as<float>());
        return leaf_;
      }

     private:
      FlatRange shard_;
      GradCache::Grad leaf_;
    };
    ShardGrads leaves(shard_);
    const TensorView view{const_cast<float*>(sums), DType::fp32, shard_.numel()};
    const auto found = compare_native(view, {{0, 0, 0, 0, shard_.numel()}}, leaves, ranks_);
    return on_all_ranks(found.differing == 0 && found.compared == shard_.numel());
  }

  Communicator& comm_;
  const int ranks_;
  const std::int64_t numel_;
  const FlatRange shard_;  ///< of this rank
  MpiLibrary library_;
  std::vector<std::unique_ptr<VariantStep>> products_;
  HugeBuffer<float> leaf_{numel_};               // this rank's gradient, of micro-batch rank()
  HugeBuffer<float> scattered_{shard_.numel()};  // the library's sums
  HugeBuffer<float> reduced_{numel_};            // the same of all-reduce
  HugeBuffer<float> copied_{numel_};             // target of memcpy
  HugeBuffer<std::uint16_t> scattered_params_{numel_}, reduced_params_{numel_};  // bf16
  State scattered_state_{shard_.begin, shard_.numel()}, limit_state_{shard_.begin, shard_.numel()};
  State reduced_state_{0, numel_};
  std::int64_t scattered_steps_ = 0, reduced_steps_ = 0;
  std::unique_ptr<SharedWindow> window_;  ///< for the limits
  std::vector<Row> rows_;
};

/// Settings of malloc in the environment: "MALLOC_MMAP_MAX_=0 ...", "" for none.
std::string malloc_settings() {
  std::string text;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view word = *variable;
    const bool tunable =
        word.starts_with("GLIBC_TUNABLES=") && word.find("malloc") != std::string_view::npos;
    if (tunable || word.starts_with("MALLOC_")) text.append(text.empty() ? "" : " ").append(word);
  }
  return text;
}

void measure_job(const Options& options, Communicator& comm, Report& report) {
  const int ranks = comm.world_size();
  const std::int64_t unit = layout_alignment * ranks;  // shards are equal and end at a chunk
  const std::int64_t numel =
      std::max(unit, options.mib * (std::int64_t{1} << 20) / 4 / unit * unit);
  const char* copies = std::getenv("OMPI_MCA_btl_vader_single_copy_mechanism");
  const char* mappings = std::getenv("MALLOC_MMAP_MAX_");
  const bool warm = mappings != nullptr && std::string_view(mappings) == "0";
  const std::string library =
      MpiLibrary::version() + (copies != nullptr ? std::string(", single copy ") + copies : "");
  report["machine"]["cores"] =
      ::sysconf(_SC_NPROCESSORS_ONLN);  // a bound rank reports only its own
  report["library"] = library;
  report["malloc"] = {{"warm", warm}, {"settings", malloc_settings()}};
  report["ranks"] = ranks;
  report["numel"] = numel;
  RankRows rank(comm, numel);
  Group group{std::to_string(ranks) + " ranks on this machine, " + std::to_string(numel) +
                  " parameters, a gradient of " + std::to_string(options.mib) + " MiB per rank\n" +
                  library + "\nmalloc " + (warm ? "warm: " + malloc_settings() : "as installed"),
              rank.all()};
  if (ranks > ::sysconf(_SC_NPROCESSORS_ONLN))
    group.title += "\nmore ranks than cores: a rank that waits takes the core of one that works";
  measure(group.rows, options.rounds);
  for (const Variant& variant : variants) {
    if (variant.more) continue;  // the library's rows add one gradient of every rank
    const double goal = ranks == 1 ? 0 : warm ? variant.goal_warm : variant.goal_cold;
    const std::string name = variant.name;
    group.judge(name + ", against library", library_row, name, goal);
    group.judge(name + ", against all-reduce", all_reduce_row, name);
    if (name != variants[0].name) group.judge(name + ", against messages", variants[0].name, name);
  }
  group.judge("fences, of the step through windows", "two fences", "product, windows");
  report.add(group);
  rank.check(report);
}

int run_rank(const Options& options) {
  MpiSession session;
  const std::unique_ptr<Communicator> comm = make_mpi_communicator();
  try {
    return reported(options, comm->rank() == 0,
                    [&](const Options& all, Report& report) { measure_job(all, *comm, report); });
  } catch (const Error& error) {
    std::fprintf(stderr, "zeroproof-bench: %s\n", error.what());
    session.set_exit_code(exit_code_of(error));
    comm->abort(error.what());
    return exit_code_of(error);
  }
}

/// Large blocks come from the heap and not from a mapping of their own, which the system would have to fill with zeros
/// at every call; the heap never shrinks, and grows in large steps.
constexpr std::array<const char*, 3> warm_malloc = {
    "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=1099511627776", "MALLOC_TOP_PAD_=67108864"};

int run_job(const Options& options, int ranks, const std::string& malloc) {
  const TemporaryFile output("the output of MPI jobs is collected in one");
  std::vector<std::string> words = mpirun_words(ranks, "");
  if (malloc == "warm") {
    words.emplace_back("env");
    words.insert(words.end(), warm_malloc.begin(), warm_malloc.end());
  }
  words.insert(words.end(),
               {std::filesystem::read_symlink("/proc/self/exe"), "ranks", "--mib",
                std::to_string(options.mib), "--rounds", std::to_string(options.rounds)});
  if (!options.json.empty()) {
    words.insert(
        words.end(),
        {"--json", options.json + (options.ranks.size() > 1 ? "." + std::to_string(ranks) : "") +
                       (options.malloc.size() > 1 ? "." + malloc : "")});
  }
  const Ended ended = run_mpirun(words, output.path(), [] { return JobState::runs; });
  std::fputs(output.content().c_str(), stdout);
  std::fflush(stdout);
  return WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : 128 + WTERMSIG(ended.status);
}

}  // namespace

int measure_ranks(const Options& options) {
  if (inside_mpi_job()) return run_rank(options);
  ::setenv("OMP_NUM_THREADS", "1", 1);
  // The fastest way Open MPI has between the processes of a machine, where the kernel permits it.
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "cma", 0);
  int worst = 0;
  for (const int ranks : options.ranks) {
    for (const std::string& malloc : options.malloc)
      worst = std::max(worst, run_job(options, ranks, malloc));
  }
  return worst;
}

}  // namespace zeroproof::verification::bench
