// A checkpoint appears after the files of all ranks are durable, in any order of reports.

#include <doctest.h>

#include <atomic>
#include <string>

#include "common/checkpoint/checkpoint_saver.hpp"
#include "tests/common/checkpoint/saving.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_order_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr SaveMode both_modes[] = {SaveMode::synchronous, SaveMode::asynchronous};
const Held three = {{1, 3, 1, 1}, LayoutKind::contract, 2};

/// Files of ranks that are durable when the checkpoint appears.
class CommittingDisk final : public Disk {
 public:
  CommittingDisk(std::atomic<int>& made, std::atomic<int>& durable)
      : made_(made), durable_(durable) {}
  int create(int folder, const char* name) override {
    const int file = Disk::create(folder, name);
    if (std::string(name).find("rank-") != 0) return file;
    of_rank_ = file;
    ++made_;
    return file;
  }
  int sync(int file) override {
    const int result = Disk::sync(file);
    if (file == of_rank_) ++durable_;
    return result;
  }
  int close(int file) override {
    if (file == of_rank_) of_rank_ = -1;
    return Disk::close(file);
  }
  int rename(int folder, const char* from, const char* to) override {
    if (std::string(to).find("step-") == 0) at_commit = durable_;
    return Disk::rename(folder, from, to);
  }

  int at_commit = -1;

 private:
  std::atomic<int>&made_, &durable_;
  std::atomic<int> of_rank_{-1};
};

}  // namespace

TEST_CASE("saver: a checkpoint appears after the files of all ranks are durable") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  for (const SaveMode mode : both_modes) {
    CAPTURE(static_cast<int>(mode));
    std::atomic<int> made{0}, durable{0};
    std::atomic<int> at_commit{-1};
    run_grid(three.grid, [&](const GridPlace& place) {
      HeldState state(three, place, held_values(1));
      CommittingDisk disk(made, durable);
      CheckpointSaver saver(folder.file(mode == SaveMode::synchronous ? "now" : "later"),
                            *place.all, 0, mode, disk);
      saver.save(state, state.setup(), held_layout(), held_content(10));
      saver.finish();
      if (place.number == 0) at_commit = disk.at_commit;
    });
    CHECK(made.load() > 1);  // one of the three has nothing
    CHECK(at_commit.load() == made.load());
  }
}

}  // namespace checkpoint_order_test
