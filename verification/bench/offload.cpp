#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/error.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/base/parallel_for.hpp"
#include "common/comm/self.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/bench/product_step.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr std::int64_t state_bytes = 12;  ///< of an element: master and two moments

/// Unnamed files whose bytes are read and written in chunks without a use: the time of a step with
/// state in a file and no computation.
class MovedBytes {
 public:
  /// num_bytes: written here once; every thread writes its share into a separate file. Errors: io;
  /// unavailable for memory.
  MovedBytes(const std::string& folder, std::int64_t num_bytes, std::int64_t chunk_bytes,
             int threads)
      : folder_(folder),
        share_bytes_((num_bytes + threads - 1) / threads),
        block_bytes_((chunk_bytes + threads - 1) / threads) {
    for (int i = 0; i < threads; ++i) {
      const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
      require(file >= 0, "cannot be made");
      shares_.push_back({file, GuardedBuffer((block_bytes_ + 3) / 4, DType::u32)});
      move(shares_.back(), true);
    }
  }
  ~MovedBytes() {
    for (const Share& share : shares_) ::close(share.file);
  }
  MovedBytes(const MovedBytes&) = delete;
  MovedBytes& operator=(const MovedBytes&) = delete;

  /// Every thread reads its share of every chunk and writes it again, through memory that no other one touches.
  void move() {
    const int count = static_cast<int>(shares_.size());
    parallel_for(count, count, [&](std::int64_t i) { move(shares_[i], false); });
  }

 private:
  struct Share {
    int file = -1;
    GuardedBuffer block;
  };

  void require(bool holds, const char* what) const {
    ZP_CHECK(holds, ErrorCode::io,
             "a file in " + folder_ + " " + what + ": " + std::strerror(errno),
             "state in a file is compared with bytes that are only moved",
             "name another folder, or free space");
  }

  void move(const Share& share, bool first) const {
    for (std::int64_t at = 0; at < share_bytes_; at += block_bytes_) {
      const std::int64_t bytes = std::min(block_bytes_, share_bytes_ - at);
      if (!first)
        require(::pread(share.file, share.block.data(), bytes, at) == bytes, "cannot be read");
      require(::pwrite(share.file, share.block.data(), bytes, at) == bytes, "cannot be written");
    }
  }

  std::string folder_;
  std::int64_t share_bytes_, block_bytes_;
  std::vector<Share> shares_;  // [threads]
};

Json measure_case(const ProductCase& what, int rounds, Report& report) {
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  const std::unique_ptr<Communicator> self = make_self_communicator();
  ProductCase nothing_elsewhere = what;
  nothing_elsewhere.offload = {};
  auto first = std::make_unique<State>(0, layout.padded_numel());
  ProductStep plain(nothing_elsewhere, layout, leaves, first->full(), *self);
  ProductStep step(what, layout, leaves, first->full(), *self);
  first.reset();
  const bool in_file = what.offload.place == OffloadPlace::file;
  const auto file_bytes =
      state_bytes * static_cast<std::int64_t>(what.offload.fraction * layout.padded_numel());
  std::unique_ptr<MovedBytes> bytes;
  std::vector<Row> rows = {{"plain", 0, what.numel, timed([&] { plain.step(); })},
                           {"step", 0, what.numel, timed([&] { step.step(); })}};
  if (in_file) {
    bytes = std::make_unique<MovedBytes>(what.offload.folder, file_bytes,
                                         state_bytes * what.offload.chunk_numel, what.threads);
    rows.push_back({"moved", 0, what.numel, timed([&] { bytes->move(); })});
  }
  measure(rows, rounds);
  // The limit of a round is the plain step, or moving the bytes if that takes longer: the two
  // overlap.
  std::vector<double> floor = rows[0].seconds;
  for (std::size_t i = 0; in_file && i < floor.size(); ++i)
    floor[i] = std::max(floor[i], rows[2].seconds[i]);
  const ContractResult wanted = contract_steps(
      {layout, what.micro_batches, what.num_leaves(), step.steps(), what.grad_dtype, what.threads});
  report.check("step with state elsewhere = contract", step.as_contract(wanted), what.text());
  report.check("an infinite gradient changes nothing elsewhere", step.skips_infinity(wanted),
               what.text());
  return {{"fraction", what.offload.fraction},
          {"place", name(what.offload.place)},
          {"numel", what.numel},
          {"chunk_numel", what.offload.chunk_numel},
          {"plain_samples_s", rows[0].seconds},
          {"moved_samples_s", in_file ? rows[2].seconds : std::vector<double>{}},
          {"moved_bytes", in_file ? 2 * file_bytes : 0},
          {"step_samples_s", rows[1].seconds},
          {"step_to_floor", ratios_value(quotients(rows[1].seconds, floor))}};
}

}  // namespace

void measure_offload(const Options& options, Report& report) {
  std::vector<ProductCase> cases;
  for (const OffloadPlace place : {OffloadPlace::host, OffloadPlace::file}) {
    for (const double fraction : {0.5, 1.0}) {
      ProductCase what{.stage = 1,
                       .numel = options.numel.front(),
                       .bucket_numel = options.bucket_numel,
                       .threads = options.threads};
      what.offload.fraction = fraction;
      what.offload.place = place;
      what.offload.folder = options.folder;
      require_possible(what);  // before the long part
      cases.push_back(what);
    }
  }
  Json offload = Json::array();
  for (const ProductCase& what : cases)
    offload.push_back(measure_case(what, options.rounds, report));
  report.say("state elsewhere: steps of " + std::to_string(options.numel.front()) +
             " parameters, one rank, chunks of " +
             std::to_string(cases.front().offload.chunk_numel) + ", files in\n" + options.folder +
             "; ms, median [least-most]. Floor: the step that offloads nothing, or the bytes moved "
             "alone,\n" +
             "whichever takes longer\n");
  report.add("offload", std::move(offload),
             {{"place", "place"},
              {"fraction", "fraction"},
              {"nothing elsewhere", "plain_samples_s", 1e3, true},
              {"bytes moved alone", "moved_samples_s", 1e3, true},
              {"step", "step_samples_s", 1e3, true},
              {"step / floor", "step_to_floor"}});
}

}  // namespace zeroproof::verification::bench
