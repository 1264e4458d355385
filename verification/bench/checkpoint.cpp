#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>

#include "common/base/error.hpp"
#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "common/io/files/page_buffer.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/bench/product_step.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace fs = std::filesystem;

constexpr int steps_of_row = 10;  ///< of the optimizer alone, during an asynchronous save

/// The disk's rate for the bytes of a checkpoint, already in memory in the layout of the file. A
/// write past the page cache costs the same for every page, whatever its size.
class RawWrite {
 public:
  RawWrite(std::int64_t num_bytes, bool huge_pages)
      : num_bytes_((num_bytes + alignment - 1) / alignment * alignment) {
    if (huge_pages) {
      huge_.reserve(num_bytes_);
      bytes_ = huge_.bytes().data();
    } else {
      ordinary_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, num_bytes_)));
      bytes_ = ordinary_.get();
      if (bytes_ == nullptr) throw std::bad_alloc();
    }
    std::memset(bytes_, 0x5a, num_bytes_);
  }

  /// One file, in blocks of 8 MiB, past the page cache where the file system permits it, made durable and removed.
  /// Seconds until it was durable. Errors: io.
  double seconds(const std::string& path) const {
    const auto require = [&](bool holds, const char* what) {
      ZP_CHECK(holds, ErrorCode::io, path + " " + what + ": " + std::strerror(errno),
               "saves are compared with a file that is written straight",
               "name another folder, or free space");
    };
    int file = -1;
    const double elapsed = seconds_of([&] {
      constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
      file = ::open(path.c_str(), flags | O_DIRECT, 0666);
      if (file < 0 && errno == EINVAL) file = ::open(path.c_str(), flags, 0666);
      require(file >= 0, "cannot be made");
      for (std::size_t done = 0; done < num_bytes_;) {
        const ssize_t count =
            ::write(file, bytes_ + done, std::min(block_bytes, num_bytes_ - done));
        require(count > 0, "cannot be written");
        done += count;
      }
      require(::fsync(file) == 0, "did not reach the disk");
    });
    ::close(file);
    ::unlink(path.c_str());
    return elapsed;
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{8} << 20, alignment = 4096;

  std::size_t num_bytes_;
  PageBuffer huge_;
  std::unique_ptr<std::byte, decltype(&std::free)> ordinary_{nullptr, &std::free};
  std::byte* bytes_ = nullptr;  // [num_bytes_], of one of them
};

/// A new folder, removed at the end.
class OwnFolder {
 public:
  explicit OwnFolder(const std::string& parent)
      : path_(parent + "/zeroproof-bench-" + make_nonce()) {
    std::error_code error;
    ZP_CHECK(fs::create_directory(path_, error), ErrorCode::io,
             path_ + " cannot be made: " + error.message(), "checkpoints are written into it",
             "name a folder that exists and is yours");
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

/// One rank of one job.
class SavingRank {
 public:
  SavingRank(const ProductCase& what, const OwnFolder& folder, const FlatLayout& layout,
             Leaves& leaves, const FullState& first, Communicator& comm)
      : folder_(folder),
        layout_(layout),
        comm_(comm),
        step_(what, layout, leaves, first, comm),
        now_(folder.file("now"), comm, 0, SaveMode::synchronous),
        later_(folder.file("later"), comm, 0, SaveMode::asynchronous) {
    if (comm.rank() > 0) return;
    raw_ = std::make_unique<RawWrite>(what.numel * 12, false);
    best_ = std::make_unique<RawWrite>(what.numel * 12, true);
  }

  /// Samples in the order of the table: raw, save, alone, beside, best; every rank takes part in
  /// all of them.
  std::vector<Row> measured(int rounds) {
    std::vector<Row> rows(5);
    rows[0].sample = [this] { return raw(raw_); };
    rows[1].sample = [this] { return save(true); };
    rows[2].sample = [this] { return timed_by_all([this] { steps(false); }); };
    rows[3].sample = [this] {
      const double seconds = timed_by_all([this] { steps(true); });
      forget("later");
      return seconds;
    };
    rows[4].sample = [this] { return raw(best_); };
    measure(rows, rounds);
    return rows;
  }

  /// Of these, the time in which training waits while the state is copied, for every call; the first is not kept.
  const std::vector<double>& copies() const { return copies_; }
  std::int64_t num_bytes() const { return num_bytes_; }

  /// Whether the durable checkpoint holds the saved state.
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
  double timed_by_all(const std::function<void()>& act) {
    comm_.barrier();
    return seconds_of([&] {
      act();
      comm_.barrier();
    });
  }

  double raw(const std::unique_ptr<RawWrite>& write) {
    comm_.barrier();
    const double seconds = write ? write->seconds(folder_.file("raw")) : 0;
    comm_.barrier();
    return seconds;
  }

  double save(bool and_forget) {
    const double seconds = timed_by_all([&] { save_with(now_); });
    if (comm_.rank() == 0)
      num_bytes_ = CheckpointReader(CheckpointRoot(folder_.file("now")), saves_).num_bytes();
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

  void steps(bool saves) {
    for (int i = 0; i < steps_of_row; ++i) {
      if (saves && i == 0) copies_.push_back(timed_by_all([&] { save_with(later_); }));
      step_.step();
      if (saves) later_.advance();
    }
    if (saves) later_.finish();
  }

  /// Removes the last save, off the clock.
  void forget(const char* where) {
    if (comm_.rank() == 0) CheckpointRoot(folder_.file(where)).remove(saves_);
    comm_.barrier();
  }

  const OwnFolder& folder_;
  const FlatLayout& layout_;
  Communicator& comm_;
  ProductStep step_;
  CheckpointSaver now_, later_;
  std::unique_ptr<RawWrite> raw_, best_;  // of rank 0
  std::vector<double> copies_;
  std::int64_t saves_ = 0, num_bytes_ = 0;
};

Json measure_case(const ProductCase& what, int rounds, const OwnFolder& folder, Report& report) {
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  const State first(0, layout.padded_numel());
  std::vector<Row> rows;
  std::vector<double> copy;
  std::int64_t num_bytes = 0;
  std::atomic<bool> same = true;
  const auto work = [&](Communicator& comm) {
    SavingRank rank(what, folder, layout, leaves, first.full(), comm);
    std::vector<Row> mine = rank.measured(rounds);
    if (comm.rank() == 0) {
      rows = std::move(mine);
      copy.assign(rank.copies().begin() + 1, rank.copies().end());
      num_bytes = rank.num_bytes();
    }
    if (!rank.is_saved()) same = false;
  };
  if (what.ranks == 1) {
    work(*make_self_communicator());
  } else {
    ThreadWorld world(what.ranks);
    run_ranks(world, work);
  }
  report.check("a checkpoint = the state that was saved", same,
               std::to_string(what.ranks) + " ranks");
  const std::vector<double>&raw = rows[0].seconds, &save = rows[1].seconds,
        &alone = rows[2].seconds, &beside = rows[3].seconds, &best = rows[4].seconds;
  return {{"ranks", what.ranks},
          {"numel", what.numel},
          {"bytes", num_bytes},
          {"steps", steps_of_row},
          {"raw_samples_s", raw},
          {"best_samples_s", best},
          {"save_samples_s", save},
          {"steps_samples_s", alone},
          {"steps_beside_save_samples_s", beside},
          {"copy_samples_s", copy},
          {"raw_to_save", ratios_value(quotients(raw, save))},
          {"best_to_save", ratios_value(quotients(best, save))},
          {"beside_to_alone", ratios_value(quotients(beside, alone))}};
}

}  // namespace

void measure_checkpoint(const Options& options, Report& report) {
  std::vector<ProductCase> cases;
  for (const int ranks : options.ranks) {
    cases.push_back({.micro_batches = 16,
                     .stage = 1,
                     .numel = options.numel.front(),
                     .bucket_numel = options.bucket_numel,
                     .threads = std::max(1, options.threads / ranks),
                     .ranks = ranks});
    require_possible(cases.back());  // before the long part
  }
  const OwnFolder own(options.folder);
  Json saves = Json::array();
  for (const ProductCase& what : cases)
    saves.push_back(measure_case(what, options.rounds, own, report));
  report.say("checkpoints of master and two moments in " + options.folder +
             ", ms; a file of as many bytes,\n" +
             "written straight, and the same from huge pages\n");
  report.say(Report::table(saves, {{"ranks", "ranks"},
                                   {"bytes", "bytes"},
                                   {"straight", "raw_samples_s", 1e3},
                                   {"huge pages", "best_samples_s", 1e3},
                                   {"save", "save_samples_s", 1e3},
                                   {"straight / save", "raw_to_save"},
                                   {"huge pages / save", "best_to_save"}}));
  report.say(std::to_string(steps_of_row) +
             " steps of the optimizer alone, and with an asynchronous save among them, ms\n");
  report.add("checkpoint", saves,
             {{"ranks", "ranks"},
              {"steps", "steps_samples_s", 1e3, true},
              {"with a save", "steps_beside_save_samples_s", 1e3, true},
              {"ratio", "beside_to_alone"},
              {"copy", "copy_samples_s", 1e3, true}});
  for (const Json& one : saves) {
    report.add({.name = "straight / save, " + std::to_string(one["ranks"].get<int>()) + " ranks",
                .value = one["raw_to_save"]["median"].get<double>(),
                .goal = 0.9});
  }
}

}  // namespace zeroproof::verification::bench
