// OffloadedGradBuffer: one range of addresses, whole pages, and full disks.

#include "cuda/offload/offloaded_grad_buffer.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cuda/expect_error.hpp"

namespace offloaded_grad_buffer_test {

namespace {

using namespace zeroproof;
using cuda::CountedBuffer;
using cuda::MemoryLedger;
using cuda::OffloadedGradBuffer;
using cuda::StateSplit;
using tests::expect_error;

/// Tensors of 1,500, 7, 5,000 and 3,000 elements, without padding at their ends.
const FlatLayout& layout() {
  static const FlatLayout made({{"a", {1500}}, {"b", {7}}, {"c", {5000}}, {"d", {3000}}});
  return made;
}

/// The same with 301,000 elements: more than a block of the digests (65,536) and a write (1 MiB).
const FlatLayout& long_layout() {
  static const FlatLayout made({{"a", {1500}}, {"b", {7}}, {"c", {301000}}, {"d", {3000}}});
  return made;
}

OptimizerSetup setup_of(double fraction, OffloadPlace place,
                        OffloadOrder order = OffloadOrder::flat, const FlatLayout& of = layout()) {
  OptimizerSetup setup;
  setup.layout = &of;
  setup.offload.fraction = fraction;
  setup.offload.order = order;
  setup.offload.place = place;
  setup.offload.grads = true;
  return setup;
}

StateSplit split_of(const OptimizerSetup& setup) {
  return {setup, {{0, setup.layout->padded_numel()}}};
}

/// Pages of the process that are backed by a deleted file.
std::int64_t mapped_file_bytes() {
  std::ifstream maps("/proc/self/maps");
  std::int64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("zeroproof-offload-") == std::string::npos) continue;
    bytes +=
        std::stoll(line.substr(line.find('-') + 1), nullptr, 16) - std::stoll(line, nullptr, 16);
  }
  return bytes;
}

/// Bytes of that file allocated on the disk: mapped pages without blocks could end in a signal.
std::int64_t allocated_bytes() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string to = std::filesystem::read_symlink(entry.path(), none).string();
    struct stat status {};
    if (to.find("zeroproof-offload-") == std::string::npos) continue;
    if (::stat(entry.path().c_str(), &status) == 0) return std::int64_t{status.st_blocks} * 512;
  }
  return 0;
}

}  // namespace

TEST_CASE("offloaded gradients: pages that have an offloaded element, each once") {
  for (const OffloadOrder order : {OffloadOrder::flat, OffloadOrder::tensors}) {
    for (const double fraction : {0.0, 1e-4, 0.1, 0.33, 0.7, 0.999, 1.0}) {
      OptimizerSetup setup = setup_of(fraction, OffloadPlace::host, order);
      setup.groups.rules.resize(2);
      setup.groups.of_tensor = {1, 0, 1, 0};  // tensors leave in another order, with gaps
      const StateSplit split = split_of(setup);
      for (const std::int64_t page : {1, 16, 1024, 100000}) {
        std::vector<int> wanted(split.numel());
        for (const StateSplit::Stretch& stretch : split.stretches()) {
          if (!stretch.offloaded) continue;
          for (std::int64_t i = stretch.local_begin; i < stretch.local_begin + stretch.numel; ++i) {
            const std::int64_t begin = i / page * page;
            std::fill(wanted.begin() + begin,
                      wanted.begin() + std::min(begin + page, split.numel()), 1);
          }
        }
        std::vector<int> seen(wanted.size());
        for (const FlatRange& range : split.grad_pages(page)) {
          for (std::int64_t i = range.begin; i < range.end; ++i) ++seen[i];
        }
        CHECK(seen == wanted);
      }
    }
  }
}

TEST_CASE(
    "offloaded gradients: one range of addresses, NaN at first, with red zones, counted in its "
    "place") {
  for (const OffloadPlace place : {OffloadPlace::host, OffloadPlace::file}) {
    for (const double fraction : {0.2, 1.0}) {
      MemoryLedger ledger;
      const OptimizerSetup setup = setup_of(fraction, place, OffloadOrder::flat, long_layout());
      const StateSplit split = split_of(setup);
      std::int64_t pages = 0;
      for (const FlatRange& range : split.grad_pages(grad_page_numel())) pages += 4 * range.numel();
      {
        OffloadedGradBuffer buffer(setup.offload, split, ledger);
        CHECK(allocated_bytes() >= buffer.file_bytes());
        CountedBuffer sum = buffer.buffer();
        CHECK(buffer.host_bytes() == (place == OffloadPlace::host ? pages : 0));
        CHECK(buffer.file_bytes() == (place == OffloadPlace::file ? pages : 0));
        CHECK(ledger.use().total_now == 4 * split.numel() - pages);
        CHECK(ledger.use().total_peak == 4 * split.numel() - pages);
        CHECK((mapped_file_bytes() >= pages) == (place == OffloadPlace::file));
        const Span<float> values = sum->as<float>();
        CHECK(values.size() == static_cast<std::size_t>(split.numel()));
        CHECK(std::ranges::all_of(values, [](float value) { return value != value; }));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
        bool all = true;
        for (std::size_t i = 0; i < values.size(); ++i)
          all = all && values[i] == static_cast<float>(i);
        CHECK(all);
        CHECK(sum.intact());
        values.data()[values.size()] = 1;
        CHECK_FALSE(sum.intact());
      }
      CHECK(ledger.use().total_now == 0);
      CHECK(mapped_file_bytes() == 0);
    }
  }
}

TEST_CASE(
    "offloaded gradients: any byte of the file that changes after the sum is damage, and one "
    "before is "
    "not") {
  const OptimizerSetup setup =
      setup_of(0.6, OffloadPlace::file, OffloadOrder::tensors, long_layout());
  const StateSplit split = split_of(setup);
  MemoryLedger ledger;
  OffloadedGradBuffer buffer(setup.offload, split, ledger);
  CountedBuffer sum = buffer.buffer();
  const Span<float> values = sum->as<float>();
  std::ranges::fill(values, 1.0F);
  const std::vector<FlatRange> pages = split.grad_pages(grad_page_numel());
  for (const int threads : {1, 3}) {
    const Exec exec{threads};
    buffer.seal(exec);
    for (const FlatRange& range : pages) {
      for (std::int64_t i = range.begin; i < range.end; i += range.numel() / 7) {
        float& value = values[i];
        buffer.check(exec);
        value = 1.0000001F;
        expect_error(
            ErrorCode::damaged, [&] { buffer.check(exec); }, "the gradients offloaded to '");
        buffer.unseal();
        buffer.check(exec);
        buffer.seal(exec);
        buffer.check(exec);
        value = 1.0F;
        buffer.seal(exec);
      }
    }
    std::ranges::fill(values.subspan(pages.back().end),
                      2.0F);  // it is in memory
    buffer.check(exec);
  }
}

TEST_CASE("offloaded gradients: a full disk is an error before the first step, and no file stays") {
  const OptimizerSetup setup = setup_of(1, OffloadPlace::file);
  const StateSplit split = split_of(setup);
  MemoryLedger ledger;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{20000}}) {
    const rlimit small{limit, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    expect_error(
        ErrorCode::io, [&] { OffloadedGradBuffer(setup.offload, split, ledger); },
        "bytes for offloaded gradients in '");
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(mapped_file_bytes() == 0);
    CHECK(ledger.use().total_now == 0);
  }
  ::signal(SIGXFSZ, handler);
}

}  // namespace offloaded_grad_buffer_test
