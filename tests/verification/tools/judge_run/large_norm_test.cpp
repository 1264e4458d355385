// judge-run: norms of parts of 8 million elements, as programs compute them, and wrong ones.

#include <doctest.h>

#include <cmath>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// One step of two ranks with half of a large matrix each.
class LargeRun {
 public:
  LargeRun() {
    std::uint64_t state = 1;
    for (std::vector<float>& part : parts_) {
      part.resize(rows_ / 2 * columns_);
      for (float& x : part) {
        float sum = 0;  // of four: nearly normal
        for (int k = 0; k < 4; ++k) {
          state = state * 6364136223846793005U + 1442695040888963407U;
          sum += static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
        }
        x = sum * 1e-3F;
        squares_ += static_cast<double>(x) * x;
      }
    }
    small_ = static_cast<float>(std::sqrt(squares_ / 36));
  }

  double exact() const { return std::sqrt(squares_ + 4 * static_cast<double>(small_) * small_); }
  double without_b() const { return std::sqrt(squares_); }
  /// Added in fp32 by so many accumulators, the parts of the ranks one after another.
  double in_lanes(std::size_t lanes) const {
    std::vector<float> sums(lanes, 0.0F);
    std::size_t i = 0;
    for (const auto& part : parts_) {
      for (const float x : part) sums[i++ % lanes] += x * x;
    }
    float sum = 4 * small_ * small_;
    for (const float lane : sums) sum += lane;
    return std::sqrt(sum);
  }
  double of_rank_1() const {
    double sum = 0;
    for (const float x : parts_[1]) sum += static_cast<double>(x) * x;
    return std::sqrt(sum);
  }

  /// What judge-run says of this norm.
  CliResult judged(double norm, nlohmann::json& json) const {
    const TemporaryFolder folder;
    write(folder.file("run"), norm);
    const CliResult done = run_cli("judge-run " + quoted(folder.file("run")) +
                                   " --report text,json:" + quoted(folder.file("j")));
    json = nlohmann::json::parse(read_file(folder.file("j")));
    return done;
  }

  /// The recording with this norm on both ranks.
  void write(const std::string& folder, double norm) const {
    std::filesystem::create_directory(folder);
    const auto numel = static_cast<std::int64_t>(rows_ * columns_);
    for (int r = 0; r < 2; ++r) {
      SimulatedFile file;
      Json& meta = file.metadata;
      meta["version"] = 1;
      meta["program"] = "simulated";
      meta["rank"] = r;
      meta["world"] = 2;
      meta["step"] = 1;
      meta["micro_batches"] = 1;
      meta["reduction"] = "mean";
      meta["applied"] = true;
      meta["norm"] = norm;
      meta["groups"] = Json::array();
      meta["groups"].push_back({{"rule", "other"}});
      Json owned = Json::array();
      owned.push_back(Json(Json::Items{r * (numel / 2), numel / 2}));
      meta["parameters"] = Json::array();
      meta["parameters"].push_back(
          {{"name", "w"},
           {"shape", Json(std::vector<std::int64_t>{static_cast<std::int64_t>(rows_),
                                                    static_cast<std::int64_t>(columns_)})},
           {"group", 0},
           {"t", 1},
           {"owned", owned}});
      // A tenth of the squares, of rank 0.
      Json four = Json::array();
      if (r == 0) four.push_back(Json(Json::Items{0, 4}));
      meta["parameters"].push_back({{"name", "b"},
                                    {"shape", Json(std::vector<std::int64_t>{4})},
                                    {"group", 0},
                                    {"t", 1},
                                    {"owned", four}});
      file.tensors["reduced.w"].values = parts_[static_cast<std::size_t>(r)];
      file.tensors["reduced.b"].values.assign(r == 0 ? 4 : 0, small_);
      write_file(folder + "/step000001.rank" + std::to_string(r) + ".safetensors", file);
    }
  }

 private:
  static constexpr std::size_t rows_ = 4200, columns_ = 4000;  // 8.4 million elements on each rank
  std::vector<float> parts_[2];
  double squares_ = 0;
  float small_ = 0;
};

const nlohmann::json& norm_case(const nlohmann::json& json) {
  for (const auto& one : json["cases"]) {
    if (one["id"] == "judge-run/norm/step000001") return one;
  }
  FAIL("there is no such case");
  return json;
}

}  // namespace

TEST_CASE(
    "judge-run: the norm of parts of 8 million elements is judged, with its share of the bound") {
  const LargeRun run;
  nlohmann::json json;
  for (const double norm : {run.in_lanes(1), run.in_lanes(8)}) {
    CAPTURE(norm);
    const CliResult done = run.judged(norm, json);
    CAPTURE(done.out);
    CHECK(done.exit_code == 0);
    CHECK(done.out.find("more elements than") == std::string::npos);
    const auto& found = norm_case(json);
    CHECK(found["status"] == "pass");
    const double share = found["worst_ratio"];
    CHECK(share <= 0.5);
    CHECK(share > 0);
  }
  // Beyond the bound, and a known mistake within it.
  const CliResult beyond = run.judged(1.5 * run.exact(), json);
  CHECK(beyond.exit_code == 1);
  CHECK(norm_case(json)["worst_ratio"] > 1);
  const CliResult local = run.judged(run.of_rank_1(), json);
  CAPTURE(local.out);
  CHECK(local.exit_code == 1);
  CHECK(local.out.find("as if rank 0 had the norm of the shard of rank 1") != std::string::npos);
  const CliResult less = run.judged(run.without_b(), json);
  CAPTURE(less.out);
  CHECK(less.exit_code == 1);
  CHECK(less.out.find("as if b were left out") != std::string::npos);
}

TEST_CASE("judge-run --against: a known mistake of one side decides in a wide bound") {
  const LargeRun run;
  const TemporaryFolder folder;
  run.write(folder.file("a"), run.in_lanes(8));
  run.write(folder.file("b"), run.without_b());
  const std::string a = quoted(folder.file("a")), b = quoted(folder.file("b"));
  const CliResult differs = run_cli("judge-run " + a + " --against " + b);
  CAPTURE(differs.out);
  CHECK(differs.exit_code == 1);
  CHECK(differs.out.find("as if b were left out") != std::string::npos);
  CHECK(run_cli("judge-run " + b + " --against " + b).exit_code == 0);
}
