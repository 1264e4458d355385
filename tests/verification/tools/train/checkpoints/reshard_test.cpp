// A resharded checkpoint has exactly the files that the ranks of the other configuration would have
// written, and resharding it back gives the original files.

#include "verification/tools/train/checkpoints/reshard.hpp"

#include <doctest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/compare/judge/training_rank.hpp"
#include "verification/tools/train/checkpoints/checkpoint_diff.hpp"
#include "verification/tools/train/training_identity.hpp"
#include "verification/training/ranks/world.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t step = 3;

/// Ranks 1 to 8; data, context and tensor parallel; optimizer instances.
struct Ranks {
  ProcessGrid grid;
  int instances = 1;
};
constexpr std::array<Ranks, 15> all_ranks = {{{{1, 1, 1}},
                                              {{2, 1, 1}},
                                              {{3, 1, 1}},
                                              {{4, 1, 1}},
                                              {{5, 1, 1}},
                                              {{6, 1, 1}},
                                              {{7, 1, 1}},
                                              {{8, 1, 1}},
                                              {{4, 1, 1}, 2},
                                              {{1, 2, 1}},
                                              {{1, 1, 2}},
                                              {{2, 1, 2}},
                                              {{3, 2, 1}, 3},
                                              {{1, 1, 4}},
                                              {{2, 2, 2}, 2}}};
constexpr std::array all_layouts = {LayoutKind::contract,       LayoutKind::megatron,
                                    LayoutKind::deepspeed_flat, LayoutKind::deepspeed_param,
                                    LayoutKind::fsdp2,          LayoutKind::greedy};
/// The smallest value leaves some ranks of large worlds without elements; with the largest there is
/// one bucket.
constexpr std::array<std::int64_t, 3> all_buckets = {1024, 4096, 262144};

/// Indices into the lists above; stage and bucket change with ranks and layout.
struct Place {
  std::size_t ranks, layout;
  auto operator<=>(const Place&) const = default;

  int stage() const { return static_cast<int>((ranks + layout) % 4); }
  std::size_t bucket() const { return (ranks + 2 * layout + ranks / 3) % 3; }
};

/// The trainings: states of four kinds, and all dtypes of parameters.
struct Training {
  DType dtype;
  const char* recipe;
  bool any_ranks;  ///< parts of a leaf cannot be rounded to 16 bits (R11)
  void (*change)(RunConfig&) = [](RunConfig&) {};
};
constexpr std::array<Training, 4> all_trainings = {
    {{DType::bf16, "adamw-amsgrad+model:even+norm:exact", true},
     {DType::fp32, "adamw-idle+model:even+norm:exact", true},
     {DType::fp16, "lion+model:even+norm:exact", false},
     {DType::bf16, "adamw+model:even+norm:exact", true, [](RunConfig& config) {
        config.state_formats = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::bf16};
      }}}};

bool is_plain(std::size_t ranks) {
  return all_ranks[ranks].grid.cp * all_ranks[ranks].grid.tp == 1;
}

/// Checkpoints of one training, each written by the ranks of its place.
class Written {
 public:
  explicit Written(const Training& training)
      : run_(training.dtype, training.recipe, training.change),
        folder_(TemporaryFolder::in_memory()) {}

  const TinyTraining& run() const { return run_; }
  std::string file(const std::string& name) const { return folder_.file(name); }

  CaseSpec spec(const Place& place) const {
    const Ranks& ranks = all_ranks[place.ranks];
    ParallelConfig config;
    config.grid = ranks.grid;
    config.instances = ranks.instances;
    config.layout = all_layouts[place.layout];
    CaseSpec spec = run_.spec(ranks.grid.world_size(), place.stage(), config);
    spec.recipe = run_.experiment.recipe();
    spec.bucket_numel = all_buckets[place.bucket()];
    return spec;
  }

  /// The folder. The state is the one that a run begins with, where no element is zero.
  const std::string& at(const Place& place) {
    std::string& path = paths_[place];
    if (!path.empty()) return path;
    path = file(std::to_string(place.ranks) + "." + std::to_string(place.layout));
    const CaseSpec spec = this->spec(place);
    const CaseLayout layout(run_.experiment, spec, spec.world.size);
    CheckpointContent content;
    content.contract = "1";
    content.run = std::string(32, 'a');
    content.step = step;
    content.about = training_identity(run_.experiment, spec, "");
    make_local_world(spec.world, run_.config.comm_timeout_s)
        ->run([&](int, const RankComparison::Communicators& comms) {
          TrainingRank rank(run_.experiment, run_.leaves, spec, layout,
                            {*comms.candidate, *comms.harness}, host_optimizer());
          rank.load(run_.first);
          CheckpointSaver saver(path, *comms.harness, 0, SaveMode::synchronous);
          saver.save(rank.optimizer(), rank.setup(), run_.experiment.layout(), content);
        });
    return path;
  }

  std::size_t places() const { return paths_.size(); }

  /// Ranks of a configuration without elements, which therefore wrote no file.
  int idle_ranks(const Place& place) {
    const CheckpointReader reader(CheckpointRoot(at(place)), step);
    return spec(place).world.size - static_cast<int>(reader.manifest().files.size());
  }

 private:
  TinyTraining run_;
  TemporaryFolder folder_;
  std::map<Place, std::string> paths_;
};

/// The name of a file that is not in both checkpoints with the same bytes; "" if there is none.
std::string other_file(const std::string& first, const std::string& second) {
  const auto names = [](const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.insert(entry.path().filename().string());
    return names;
  };
  const fs::path a = fs::path(first) / checkpoint_name(step),
                 b = fs::path(second) / checkpoint_name(step);
  if (names(a) != names(b)) return "one that only one of them has";
  for (const std::string& name : names(a)) {
    if (read_file(a / name) != read_file(b / name)) return name;
  }
  return "";
}

CheckpointReader opened(const std::string& folder) { return {CheckpointRoot(folder), step}; }

/// From one place to another and back.
void there_and_back(Written& written, const Place& from, const Place& to) {
  CAPTURE(written.spec(from).id());
  CAPTURE(written.spec(to).id());
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string there = folder.file("there"), back = folder.file("back");
  reshard(opened(written.at(from)), written.run().experiment, written.spec(to), there, {});
  CHECK(other_file(there, written.at(to)) == "");
  CHECK(compare_checkpoints(opened(written.at(from)), opened(there)).differing == 0);
  reshard(opened(there), written.run().experiment, written.spec(from), back, {});
  CHECK(other_file(back, written.at(from)) == "");
}

/// Pairs of an axis value before and another one after that occurred.
class Met {
 public:
  void add(const char* before, std::size_t a, const char* after, std::size_t b) {
    pairs_[{before, after}].insert({a, b});
  }
  std::size_t count(const char* before, const char* after) const {
    return pairs_.at({before, after}).size();
  }

 private:
  std::map<std::pair<std::string, std::string>, std::set<std::pair<std::size_t, std::size_t>>>
      pairs_;
};

}  // namespace

TEST_CASE("reshard: the files are those of the new ranks, and on the way back the original ones") {
  std::vector<std::unique_ptr<Written>> written;
  for (const Training& training : all_trainings)
    written.push_back(std::make_unique<Written>(training));
  Met met;
  std::set<std::size_t> trained;
  int idle = 0;
  for (std::size_t a = 0; a < all_ranks.size(); ++a) {
    for (std::size_t b = 0; b < all_ranks.size(); ++b) {
      // For each of a, b runs through all layouts, and so the other way round.
      const Place from{a, (b + a / 2) % 6}, to{b, (a + b / 2) % 6};
      std::size_t training = (a + b) % all_trainings.size();
      if (!all_trainings[training].any_ranks && !(is_plain(a) && is_plain(b))) training = a % 2;
      there_and_back(*written[training], from, to);
      idle +=
          written[training]->idle_ranks(from) > 0 && written[training]->idle_ranks(to) > 0 ? 1 : 0;
      trained.insert(training);
      met.add("ranks", a, "ranks", b);
      met.add("ranks", a, "layout", to.layout);
      met.add("layout", from.layout, "ranks", b);
      met.add("layout", from.layout, "layout", to.layout);
      met.add("stage", static_cast<std::size_t>(from.stage()), "stage",
              static_cast<std::size_t>(to.stage()));
      met.add("bucket", from.bucket(), "bucket", to.bucket());
    }
  }
  CHECK(met.count("ranks", "ranks") == 225);
  CHECK(met.count("ranks", "layout") == 90);
  CHECK(met.count("layout", "ranks") == 90);
  CHECK(met.count("layout", "layout") == 36);
  CHECK(met.count("stage", "stage") == 16);
  CHECK(met.count("bucket", "bucket") == 9);
  CHECK(trained.size() == all_trainings.size());
  std::size_t places = 0;
  for (const auto& training : written) places += training->places();
  MESSAGE(places << " places, " << idle << " pairs with ranks that own nothing on both sides");
  CHECK(idle > 0);
}
