#include "verification/bench/checkpoint/save_rows.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/error.hpp"
#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "verification/bench/checkpoint/raw_write.hpp"
#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/measure/values.hpp"
#include "verification/bench/product/product_step.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace fs = std::filesystem;

/// A folder that nobody has, removed at the end.
class OwnFolder {
 public:
  explicit OwnFolder(const std::string& parent) : path_(parent + "/zeroproof-bench-" + make_nonce()) {
    std::error_code error;
    ZP_CHECK(fs::create_directory(path_, error), ErrorCode::io, path_ + " cannot be made: " + error.message(),
             "checkpoints are written into it", "name a folder that exists and is yours");
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<double> quotients(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> values;
  for (std::size_t i = 0; i < above.size(); ++i) values.push_back(above[i] / below[i]);
  return values;
}

/// One rank of one job.
class SavingRank {
 public:
  SavingRank(SaveResult& result, const OwnFolder& folder, const FlatLayout& layout, Leaves& leaves,
             const FullState& first, Communicator& comm)
      : result_(result),
        folder_(folder),
        layout_(layout),
        comm_(comm),
        step_(result.what, layout, leaves, first, comm),
        now_(folder.file("now"), comm, 0, SaveMode::synchronous),
        later_(folder.file("later"), comm, 0, SaveMode::asynchronous) {
    if (comm.rank() > 0) return;
    raw_.emplace(result.what.numel * 12, RawPages::ordinary);
    best_.emplace(result.what.numel * 12, RawPages::huge);
  }

  void work(int rounds) {
    for (int round = -1; round < rounds; ++round) {  // the first is not kept
      for (const std::size_t what : shuffled(5, static_cast<std::uint32_t>(round + 1))) {
        const auto keep = [&](std::vector<double>& samples, double seconds) {
          if (round >= 0 && comm_.rank() == 0) samples.push_back(seconds);
        };
        if (what == 0) keep(result_.raw, raw(raw_));
        if (what == 4) keep(result_.best, raw(best_));
        if (what == 1) keep(result_.save, save());
        if (what == 2) keep(result_.alone, timed([&] { steps(nullptr); }));
        if (what == 3) {
          double copy = 0;
          keep(result_.beside, timed([&] { steps(&copy); }));
          keep(result_.copy, copy);
          forget("later");
        }
      }
    }
  }

  /// Whether what is durable is what was saved.
  bool is_saved() {
    save(false);
    const CheckpointReader reader(CheckpointRoot(folder_.file("now")), saves_);
    bool same = true;
    std::vector<float> read;
    for (const ExposedBuffer& buffer : step_.optimizer().storage()) {
      if (!reader.has(std::string(name(buffer.id)))) continue;
      for (const OwnPiece& own : own_pieces(step_.setup(), layout_)) {
        const Span<const float> held = elements_of(own, buffer);
        read.resize(held.size());
        reader.read(std::string(name(buffer.id)), own.piece.tensor, own.piece.element(0), read);
        same = same && std::memcmp(read.data(), held.data(), 4 * held.size()) == 0;
      }
    }
    comm_.barrier();
    forget("now");
    return same;
  }

 private:
  double timed(const std::function<void()>& act) {
    comm_.barrier();
    const auto start = std::chrono::steady_clock::now();
    act();
    comm_.barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  double raw(const std::optional<RawWrite>& write) {
    comm_.barrier();
    const double seconds = write ? write->seconds(folder_.file("raw")) : 0;
    comm_.barrier();
    return seconds;
  }

  double save(bool and_forget = true) {
    const double seconds = timed([&] { save_with(now_); });
    if (comm_.rank() == 0)
      result_.num_bytes = CheckpointReader(CheckpointRoot(folder_.file("now")), saves_).num_bytes();
    comm_.barrier();
    if (and_forget) forget("now");
    return seconds;
  }

  void save_with(CheckpointSaver& saver) {
    CheckpointContent content;
    content.contract = "bench";
    content.run = std::string(32, '0');
    content.step = ++saves_;
    saver.save(step_.optimizer(), step_.setup(), layout_, content);
  }

  /// copy: one save goes on meanwhile; the time until its state was copied.
  void steps(double* copy) {
    for (int i = 0; i < SaveResult::steps; ++i) {
      if (copy != nullptr && i == 0) *copy = timed([&] { save_with(later_); });
      step_.step();
      if (copy != nullptr) later_.advance();
    }
    if (copy != nullptr) later_.finish();
  }

  /// Removes what was saved last, off the clock.
  void forget(const char* where) {
    if (comm_.rank() == 0) CheckpointRoot(folder_.file(where)).remove(saves_);
    comm_.barrier();
  }

  SaveResult& result_;
  const OwnFolder& folder_;
  const FlatLayout& layout_;
  Communicator& comm_;
  ProductStep step_;
  CheckpointSaver now_, later_;
  std::optional<RawWrite> raw_, best_;  // rank 0's
  std::int64_t saves_ = 0;
};

SaveResult measure_save(const ProductCase& what, int rounds, const OwnFolder& folder) {
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  const std::vector<float> zeros(static_cast<std::size_t>(layout.padded_numel()), 0.0F);
  FullState first;
  first.master = zeros;
  first.exp_avg = zeros;
  first.exp_avg_sq = zeros;
  first.applied_steps = steps_before;
  first.scaler.log2_scale = log2_loss_scale;
  SaveResult result;
  result.what = what;
  std::atomic<bool> same = true;
  const auto work = [&](Communicator& comm) {
    SavingRank rank(result, folder, layout, leaves, first, comm);
    rank.work(rounds);
    if (!rank.is_saved()) same = false;
  };
  if (what.ranks == 1) {
    work(*make_self_communicator());
  } else {
    ThreadWorld world(what.ranks);
    run_ranks(world, work);
  }
  result.checks.push_back(
      {"a checkpoint = the state that was saved", same, std::to_string(what.ranks) + " ranks"});
  return result;
}

}  // namespace

std::vector<double> SaveResult::raw_to_save() const { return quotients(raw, save); }
std::vector<double> SaveResult::best_to_save() const { return quotients(best, save); }
std::vector<double> SaveResult::beside_to_alone() const { return quotients(beside, alone); }

std::vector<SaveResult> measure_saves(const std::vector<ProductCase>& cases, int rounds,
                                      const std::string& folder) {
  for (const ProductCase& what : cases) require_possible(what);  // before the long part
  const OwnFolder own(folder);
  std::vector<SaveResult> results;
  for (const ProductCase& what : cases) results.push_back(measure_save(what, rounds, own));
  return results;
}

}  // namespace zeroproof::verification::bench
