// A rank that saves, loads or reshards a checkpoint allocates its share of the state, and at most
// 64 MiB more, for tensors of any size. 512 MiB of state on four ranks.

#include <doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>

#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"
#include "common/layout/shard_map.hpp"
#include "tests/support/grid.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/tools/train/checkpoints/reshard.hpp"
#include "verification/tools/train/training_identity.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;
namespace fs = std::filesystem;

constexpr int ranks = 4;
constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t most_besides = 64 * mib;  // of each rank
constexpr BufferId states[] = {BufferId::master, BufferId::exp_avg, BufferId::exp_avg_sq};

/// 44,739,579 parameters, most of them in one tensor: three states of them have 512 MiB.
const std::vector<ParamSpec>& large_params() {
  static const std::vector<ParamSpec> params = {
      {"embedding", {8191, 4096}}, {"bias", {4095}}, {"up", {2731, 4096}}, {"gain", {892}}};
  return params;
}

float value_of(BufferId id, std::int64_t place) {
  return static_cast<float>(place % 1048573) + static_cast<float>(id) * 0.25F;
}

/// The share of one rank.
class LargeState final : public DistributedOptimizer {
 public:
  LargeState(const FlatLayout& layout, const GridPlace& place)
      : shards_(layout.padded_numel(), ranks, 1 << 18) {
    setup_.layout = &layout;
    setup_.shards = &shards_;
    place.into(setup_);
    for (const FlatRange& range : shards_.shard(place.rank)) ranges_.push_back(range);
    std::int64_t numel = 0;
    for (const FlatRange& range : ranges_) numel += range.numel();
    for (const BufferId id : states) memory_[id].assign(static_cast<std::size_t>(numel), 0.0F);
  }

  void fill() {
    for (const BufferId id : states) {
      std::size_t at = 0;
      for (const FlatRange& range : ranges_) {
        for (std::int64_t place = range.begin; place < range.end; ++place)
          memory_[id][at++] = value_of(id, place);
      }
    }
  }
  void load(const CheckpointState& from) {
    for (const BufferId id : states) {
      std::int64_t at = 0;
      for (const FlatRange& range : ranges_) {
        from.read(id, range.begin, Span<float>(memory_[id]).subspan(at, range.numel()));
        at += range.numel();
      }
    }
  }
  /// Of the elements of tensors; padding has no owner.
  bool is_filled() const {
    for (const BufferId id : states) {
      for (const Piece& piece : setup_.layout->pieces(ranges_)) {
        for (std::int64_t i = 0; i < piece.numel; ++i) {
          if (memory_.at(id)[piece.local_begin + i] != value_of(id, piece.global_begin + i))
            return false;
        }
      }
    }
    return true;
  }

  const OptimizerSetup& setup() const { return setup_; }
  void load_state(const FullState&) override {}
  void run_phase(Phase, GradSource&) override {}
  bool skipped() const override { return false; }
  std::vector<ExposedBuffer> exposed(Phase) override { return {}; }
  std::vector<ExposedBuffer> storage() override {
    std::vector<ExposedBuffer> all;
    for (auto& [id, values] : memory_)
      all.push_back(
          {id, {values.data(), DType::fp32, static_cast<std::int64_t>(values.size())}, ranges_});
    return all;
  }
  LossScalerState loss_scaler() const override { return {}; }
  std::int64_t applied_steps() const override { return 1; }

 private:
  ShardMap shards_;
  OptimizerSetup setup_;
  std::vector<FlatRange> ranges_;
  std::map<BufferId, std::vector<float>> memory_;
};

std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, key.size() + 1, key + ":") == 0)
      return std::atoll(line.c_str() + key.size() + 1) * 1024;
  }
  return -1;
}

/// The largest memory of `act` beyond the memory at its start, in bytes, in a separate process;
/// `act` calls its argument when its inputs are allocated. -1 if it failed.
std::int64_t bytes_besides(const std::function<bool(const std::function<void()>& measure)>& act) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::int64_t before = -1, besides = -1;
    try {
      const bool good = act([&] {
        std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // start of the peak
        before = status_bytes("VmRSS");
      });
      if (good && before >= 0) besides = status_bytes("VmHWM") - before;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    const bool sent = ::write(ends[1], &besides, sizeof besides) == sizeof besides;
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  std::int64_t besides = -1;
  const bool received = ::read(ends[0], &besides, sizeof besides) == sizeof besides;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return received ? besides : -1;
}

/// True if the peak of a process can be reset; the test needs it.
bool can_measure() {
  const std::int64_t besides = bytes_besides([](const auto& measure) {
    std::vector<char>(256 * mib, 'x');
    measure();
    return true;
  });
  return besides >= 0 && besides < 64 * mib;
}

void check(const char* what, std::int64_t besides, std::int64_t most) {
  std::printf("%s: %lld MiB besides the state, %lld allowed\n", what,
              static_cast<long long>(besides / mib), static_cast<long long>(most / mib));
  CAPTURE(what);
  CHECK(besides >= 0);
  CHECK(besides <= most);
}

CheckpointContent content_of(std::int64_t step, const Json& about) {
  return {"1", std::string(32, 'a'), step, about};
}

/// Saves in one process of four threads; the measurement is their total.
std::int64_t saving(const std::string& folder, SaveMode mode, const FlatLayout& layout,
                    const Json& about) {
  return bytes_besides([&](const auto& measure) {
    run_grid({1, ranks, 1, 1}, [&](const GridPlace& place) {
      LargeState state(layout, place);
      state.fill();
      place.all->barrier();
      if (place.number == 0) measure();
      place.all->barrier();
      CheckpointSaver saver(folder, *place.all, 0, mode);
      saver.save(state, state.setup(), layout, content_of(1, about));
      saver.finish();
    });
    return true;
  });
}

std::int64_t loading(const std::string& folder, const FlatLayout& layout) {
  return bytes_besides([&](const auto& measure) {
    bool good = true;
    run_grid({1, ranks, 1, 1}, [&](const GridPlace& place) {
      LargeState state(layout, place);
      place.all->barrier();
      if (place.number == 0) measure();
      place.all->barrier();
      const CheckpointReader reader(CheckpointRoot(folder), 1);
      state.load(CheckpointState(reader, state.setup(), layout));
      if (!state.is_filled()) good = false;
    });
    return good;
  });
}

/// Gradients of one step, all zero: a file with a header and a hole.
void write_recording(const std::string& path) {
  Json header = Json::object();
  std::string order;
  for (const ParamSpec& param : large_params()) order += (order.empty() ? "" : "\n") + param.name;
  header["__metadata__"] = Json{{"order", order}};
  std::int64_t at = 0;
  for (const ParamSpec& param : large_params()) {
    std::int64_t bytes = 2;
    for (const std::int64_t length : param.shape) bytes *= length;
    header["grad.1.0." + param.name] =
        Json{{"dtype", "BF16"},
             {"shape", Json(param.shape)},
             {"data_offsets", Json(std::vector<std::int64_t>{at, at + bytes})}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), 8) << text;
  fs::resize_file(path, 8 + text.size() + static_cast<std::uint64_t>(at));
}

}  // namespace

TEST_CASE("memory: saving, loading and resharding 512 MiB, four ranks") {
  if (!can_measure()) return skip_case("the peak of a process's memory cannot be set back here");
  const TemporaryFolder folder;
  write_recording(folder.file("recording"));
  const RunConfig config = recorded_defaults(folder.file("recording"));
  const Experiment experiment("recorded", config, DType::bf16,
                              recorded_text(folder.file("recording")));
  const FlatLayout& layout = experiment.layout();
  REQUIRE(layout.numel() * 12 > 511 * mib);
  CaseSpec spec =
      *parse_case_id("recorded/adamw/host/stage1/threads:4/bf16/lockstep/bucket:262144/omp:1");
  const Json about = training_identity(experiment, spec, folder.file("recording"));

  const std::string run = folder.file("run");
  check("saving", saving(run, SaveMode::synchronous, layout, about), ranks * most_besides);
  check("loading", loading(run, layout), ranks * most_besides);
  check("saving beside training",
        saving(folder.file("async"), SaveMode::asynchronous, layout, about),
        layout.numel() * 12 + ranks * most_besides);
  fs::remove_all(folder.file("async"));
  for (const int others : {1, 3}) {
    spec.world = {others == 1 ? WorldSpec::Kind::self : WorldSpec::Kind::threads, others};
    const std::string to = folder.file("to" + std::to_string(others));
    // One process, without a share.
    check("resharding", bytes_besides([&](const auto& measure) {
            measure();
            const CheckpointReader from(CheckpointRoot(run), 1);
            reshard(from, experiment, spec, to, {});
            return true;
          }),
          most_besides);
    check("loading", loading(to, layout), ranks * most_besides);
    fs::remove_all(to);
  }
}
