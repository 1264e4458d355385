// verify --gradients --expect --accept any-order: trainings in other orders of operations, and with known mistakes.

#include <doctest.h>

#include <cmath>
#include <fstream>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// A training of several ranks as PyTorch programs compute it, in fp32, with an order of operations and a mistake.
struct LegalSimulation {
  int ranks = 2, micro = 2, steps = 4;  ///< micro: of each rank
  int order = 0;                        ///< of sums, norm and update: 0 to 5
  std::string mistake = {};
  int from_step = 1;
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, max_norm = 0.2;
  float scale = 0.25F;  ///< of gradients

  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameters = {
      {"embed.weight", {40, 9}}, {"out.bias", {7}}, {"none", {0, 2}}, {"head.weight", {30, 16}}};

  static std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
    std::int64_t numel = 1;
    for (const std::int64_t size : shape) numel *= size;
    return numel;
  }

  static float noise(std::uint64_t key) {
    key = (key ^ key >> 31) * 0x9E3779B97F4A7C15U;
    key = (key ^ key >> 29) * 0xBF58476D1CE4E5B9U;
    key ^= key >> 32;
    return static_cast<float>(static_cast<std::int32_t>(key)) * 0x1p-31F;
  }
  float leaf(int step, int j, std::size_t p, std::int64_t i) const {
    if (p == 0 && i % 5 == 3) return 0;  // rows that are not used
    return scale *
           noise(((static_cast<std::uint64_t>(step) * 64 + static_cast<std::uint64_t>(j)) * 8 + p) *
                     100'000 +
                 static_cast<std::uint64_t>(i)) *
           (i % 7 == 0 ? 1.0F : 0.05F);
  }
  static float first(std::size_t p, std::int64_t i) {
    return 0.1F * noise(7'000'000 + p * 100'000 + static_cast<std::uint64_t>(i));
  }

  std::vector<NamedTensor> gradients() const {
    std::vector<NamedTensor> all;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const auto& [name, shape] = parameters[p];
      std::vector<float> values;
      for (std::int64_t i = 0; i < numel_of(shape); ++i) values.push_back(first(p, i));
      all.push_back(tensor("param." + name, SafeDType::f32, shape, values));
      for (int step = 1; step <= steps; ++step) {
        for (int j = 0; j < ranks * micro; ++j) {
          values.clear();
          for (std::int64_t i = 0; i < numel_of(shape); ++i) values.push_back(leaf(step, j, p, i));
          all.push_back(
              tensor("grad." + std::to_string(step) + "." + std::to_string(j) + "." + name,
                     SafeDType::f32, shape, values));
        }
      }
    }
    return all;
  }

  bool has(const char* name, int step) const { return mistake == name && step >= from_step; }

  /// Sum over all micro-batches of all ranks, as a mean.
  std::vector<std::vector<float>> reduced(int step) const {
    std::vector<std::vector<float>> all;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      auto& mean = all.emplace_back();
      for (std::int64_t i = 0; i < numel_of(parameters[p].second); ++i) {
        std::vector<float> of_rank;
        for (int r = 0; r < ranks; ++r) {
          float sum = 0;
          for (int m = 0; m < micro; ++m) {
            const int at = order % 2 == 0 ? m : micro - 1 - m;
            float x = leaf(step, r * micro + at, p, i);
            if (order >= 2 && !has("not divided by micro-batches", step))
              x = x / static_cast<float>(micro);
            sum += x;
          }
          if (order < 2 && !has("not divided by micro-batches", step))
            sum *= 1.0F / static_cast<float>(micro);
          if (order == 3 && !has("not divided", step)) sum /= static_cast<float>(ranks);
          of_rank.push_back(sum);
        }
        float sum = order % 2 == 0 ? of_rank.front() : of_rank.back();
        for (int r = 1; r < ranks; ++r) {
          const auto at = static_cast<std::size_t>(order % 2 == 0 ? r : ranks - 1 - r);
          sum += of_rank[at];
        }
        if (order != 3 && !has("not divided", step)) sum /= static_cast<float>(ranks);
        if (has("divided by world twice", step)) sum /= static_cast<float>(ranks);
        mean.push_back(sum);
      }
    }
    return all;
  }

  /// Rank of an element, by rows, as FSDP2 cuts a tensor.
  std::size_t rank_of(std::size_t p, std::int64_t i) const {
    const std::vector<std::int64_t>& shape = parameters[p].second;
    const std::int64_t rows = shape.front(), each = (rows + ranks - 1) / ranks;
    return static_cast<std::size_t>(
        std::min<std::int64_t>(i / (numel_of(shape) / rows) / each, ranks - 1));
  }

  /// Norm in fp32: in one sum, or of the norms of the parts of all ranks.
  float norm_of(const std::vector<std::vector<float>>& grads, int rank = -1) const {
    float squares = 0;
    if (order == 0 || rank >= 0) {
      for (std::size_t p = 0; p < grads.size(); ++p) {
        for (std::size_t i = 0; i < grads[p].size(); ++i) {
          if (rank < 0 ||
              rank_of(p, static_cast<std::int64_t>(i)) == static_cast<std::size_t>(rank))
            squares += grads[p][i] * grads[p][i];
        }
      }
      return std::sqrt(squares);
    }
    for (std::size_t p = grads.size(); p-- > 0;) {
      if (order >= 4) {
        double exact = 0;
        for (const float x : grads[p]) exact += static_cast<double>(x) * x;
        squares += static_cast<float>(exact);
        continue;
      }
      std::vector<float> lanes(8, 0.0F);
      for (std::size_t i = 0; i < grads[p].size(); ++i) lanes[i % 8] += grads[p][i] * grads[p][i];
      float part = 0;
      for (const float lane : lanes) part += lane;
      const float norm = std::sqrt(part);
      squares += norm * norm;
    }
    return std::sqrt(squares);
  }

  /// The numbers of the run: norms if `norms`, moments and masters.
  std::vector<NamedTensor> results(bool norms = true) const {
    std::vector<NamedTensor> all;
    std::vector<std::vector<float>> master, m, v;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      auto& of = master.emplace_back();
      for (std::int64_t i = 0; i < numel_of(parameters[p].second); ++i) of.push_back(first(p, i));
      m.emplace_back(of.size(), 0.0F);
      v.emplace_back(of.size(), 0.0F);
    }
    for (int step = 1; step <= steps; ++step) {
      std::vector<std::vector<float>> grads = reduced(step);
      float norm = norm_of(grads);
      if (has("square in place of the norm", step)) norm *= norm;
      const double n = static_cast<double>(norm);
      double added = 1e-6;
      if (has("clip eps per rank", step)) added *= ranks;
      auto clip = [&](double of) {
        return max_norm == 0 ? 1.0F : static_cast<float>(std::min(1.0, max_norm / (of + added)));
      };
      float c = clip(n);
      if (has("norm before the division", step)) c = clip(n * ranks);
      if (has("not clipped", step)) c = 1;
      if (has("clipped twice", step)) c *= c;
      std::vector<float> of_rank;
      for (int r = 0; r < ranks; ++r)
        of_rank.push_back(has("local norm", step) ? clip(norm_of(grads, r)) : c);
      for (std::size_t p = 0; p < grads.size(); ++p) {
        for (std::size_t i = 0; i < grads[p].size(); ++i)
          grads[p][i] *= of_rank[rank_of(p, static_cast<std::int64_t>(i))];
      }
      if (norms)
        all.push_back(tensor("grad_norm." + std::to_string(step), SafeDType::f64, {},
                             std::vector<double>{n}));
      const int t = has("t one less", step)   ? std::max(step - 1, 1)
                    : has("t one more", step) ? step + 1
                                              : step;
      const double c1 = 1 - std::pow(beta1, t), c2 = 1 - std::pow(beta2, t);
      const double e = eps * (has("eps per rank", step) ? ranks : 1);
      const auto b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2);
      const auto o1 = static_cast<float>(1 - beta1), o2 = static_cast<float>(1 - beta2);
      for (std::size_t p = 0; p < grads.size(); ++p) {
        for (std::size_t i = 0; i < grads[p].size(); ++i) {
          const float g = grads[p][i];
          float &x = master[p][i], &mean = m[p][i], &square = v[p][i];
          const bool late = has("decay after the update", step);
          const auto kept = static_cast<float>(1 - lr * decay);
          mean = order % 2 == 0 ? mean + o1 * (g - mean) : b1 * mean + o1 * g;
          square = order == 2 ? b2 * square + (o2 * g) * g : b2 * square + o2 * (g * g);
          float step_of = 0;
          if (has("eps in the root", step)) {
            step_of = static_cast<float>(lr / c1) * mean /
                      std::sqrt(square / static_cast<float>(c2) + static_cast<float>(e));
          } else if (order >= 4) {
            step_of = static_cast<float>(lr) *
                      ((mean / static_cast<float>(c1)) /
                       (std::sqrt(square / static_cast<float>(c2)) + static_cast<float>(e)));
          } else {
            step_of = static_cast<float>(lr / c1) *
                      (mean / (std::sqrt(square) / static_cast<float>(std::sqrt(c2)) +
                               static_cast<float>(e)));
          }
          if (has("no decay", step)) {
            x -= step_of;
          } else if (late) {
            x = (x - step_of) * kept;
          } else if (order == 1 || order == 5) {
            x = x - (step_of + static_cast<float>(lr * decay) * x);
          } else {
            x = x * kept - step_of;
          }
        }
      }
      for (std::size_t p = 0; p < grads.size(); ++p) {
        const auto put = [&](const char* buffer, const std::vector<float>& values) {
          all.push_back(
              tensor(std::string(buffer) + "." + std::to_string(step) + "." + parameters[p].first,
                     SafeDType::f32, parameters[p].second, values));
        };
        put("exp_avg", m[p]);
        put("exp_avg_sq", v[p]);
        put("master", master[p]);
      }
    }
    return all;
  }
};

class LegalFiles {
 public:
  CliResult judge(const LegalSimulation& run, const std::vector<NamedTensor>& theirs,
                  const std::string& more = "") {
    write_tensors(folder.file("g"), run.gradients());
    write_tensors(folder.file("theirs"), theirs);
    char settings[512];
    std::snprintf(settings, sizeof(settings),
                  "[optimizer]\nlr = %.17g\nbeta1 = %.17g\nbeta2 = %.17g\neps = %.17g\n"
                  "weight_decay = %.17g\nmax_norm = %.17g\nnorm = \"exact\"\n",
                  run.lr, run.beta1, run.beta2, run.eps, run.decay, run.max_norm);
    std::ofstream(folder.file("c.toml")) << settings;
    return run_cli("verify --gradients " + quoted(folder.file("g")) +
                   " --recipe adamw --dtype fp32 --config " + quoted(folder.file("c.toml")) +
                   " --expect " + quoted(folder.file("theirs")) +
                   " --accept any-order --report text,json:" + quoted(folder.file("j")) + " " +
                   more);
  }
  nlohmann::json json() { return nlohmann::json::parse(read_file(folder.file("j"))); }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE(
    "accept any-order: six orders of sums, norm and update are within the bounds of every step") {
  LegalFiles files;
  for (int order = 0; order < 6; ++order) {
    for (const double max_norm : {0.2, 0.0}) {
      for (const auto& [ranks, micro] :
           {std::pair{2, 2}, std::pair{3, 1}, std::pair{1, 5}, std::pair{1, 1}}) {
        LegalSimulation run;
        run.order = order;
        run.max_norm = max_norm;
        run.ranks = ranks;
        run.micro = micro;
        run.steps = 12;
        const CliResult done = files.judge(run, run.results());
        CAPTURE(order);
        CAPTURE(ranks);
        CAPTURE(done.out);
        CAPTURE(done.err);
        CHECK(done.exit_code == 0);
        CHECK(done.out.find("within the bounds of any legal order: at most ") != std::string::npos);
        const double share = files.json()["legal"]["share_of_bound"];
        CHECK(share > 0.05);  // the bound is not much wider than what orders differ by
        CHECK(share <= 0.92);
      }
    }
  }
}

TEST_CASE("accept any-order: a mistake is named at its first step") {
  struct Row {
    std::string mistake, hint;
    double max_norm = 0.2;
    float scale = 0.25F;
  };
  LegalFiles files;
  for (const Row& row : std::initializer_list<Row>{
           {"not divided", "the gradient were not divided by 2 (ranks, or", 0},
           {"not divided by micro-batches", "the gradient were not divided by 2 (ranks, or", 0},
           {"divided by world twice", "the gradient were divided twice by 2 (ranks, or", 0},
           {"local norm",
            "each of 2 ranks clipped by the norm of its own shard (rows of every tensor)"},
           {"not clipped", "the gradient were not clipped"},
           {"clipped twice", "the clip were applied twice"},
           {"norm before the division",
            "the norm were that of the gradient before its division by 2"},
           {"square in place of the norm", "no root were taken of the norm"},
           {"clip eps per rank", "1e-6 were added to the norm 2 times, once per rank", 0.002,
            1e-3F},
           {"eps per rank", "eps were added 2 times, once per rank"},
           {"eps in the root", "eps were inside the square root"},
           {"decay after the update", "the weight decay came after the step"},
           {"no decay", "the weight decay were left out"},
           {"t one more", "t were one more"}}) {
    for (const int from_step : {1, 3}) {
      for (const int order : {0, 3}) {
        LegalSimulation run;
        run.order = order;
        run.mistake = row.mistake;
        run.from_step = from_step;
        run.max_norm = row.max_norm;
        run.scale = row.scale;
        const CliResult done = files.judge(run, run.results());
        CAPTURE(row.mistake);
        CAPTURE(from_step);
        CAPTURE(order);
        CAPTURE(done.out);
        CHECK(done.exit_code == 1);
        CHECK(done.out.find("\nin no legal order\n") != std::string::npos);
        CHECK(done.out.find("first at  step " + std::to_string(from_step) + "  ") !=
              std::string::npos);
        CHECK(done.out.find("as if " + row.hint) != std::string::npos);
        CHECK(files.json()["legal"]["accepted"] == false);
      }
    }
  }
}

TEST_CASE("accept any-order: values beyond the conditions do not pass by their class") {
  LegalFiles files;
  LegalSimulation run;
  run.steps = 2;
  run.max_norm = 0;
  run.scale = 0x1p66F;  // squares overflow
  const CliResult other = files.judge(run, run.results(false));
  CAPTURE(other.out);
  CHECK(other.exit_code != 0);
  CHECK(other.out.find("within the bounds") == std::string::npos);
}

TEST_CASE("accept any-order: settings without a bound over several steps are refused") {
  const TemporaryFolder folder;
  const LegalSimulation run;
  write_tensors(folder.file("g"), run.gradients());
  write_tensors(folder.file("theirs"), run.results());
  const auto refused = [&](const std::string& words, const std::string& says) {
    const CliResult done = run_cli("verify --gradients " + quoted(folder.file("g")) + " --expect " +
                                   quoted(folder.file("theirs")) + " " + words);
    CAPTURE(done.err);
    CHECK(done.exit_code == 2);
    CHECK(done.err.find(says) != std::string::npos);
  };
  refused("--recipe lamb --dtype bf16 --accept any-order",
          "--accept any-order was given with the rule lamb");
  refused("--recipe adamw --dtype e4m3 --accept any-order", "given with parameters of 8 bits");
  refused("--recipe adamw --dtype bf16 --accept any-ordr", "did you mean any-order?");
}
