// judge-run of steps of muon: those of PyTorch, and with one planted mistake.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>

#include "common/base/error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/judge_run/judge_against.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace judge_muon_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

constexpr double lr = 0.02, decay = 0.1, momentum = 0.95;

RecordedStep recorded(const std::string& name) {
  return read_step(source_folder() + "/tests/verification/tools/identify/recorded_steps/muon/" +
                   name + ".safetensors");
}

Json torch_group() {
  return {{"rule", "muon"},
          {"lr", lr},
          {"weight_decay", decay},
          {"momentum", momentum},
          {"family", "ema"},
          {"nesterov", true},
          {"steps", 5},
          {"coefficients", "simple"},
          {"scale", "original"},
          {"floor", "clamp"},
          {"eps", 1e-7}};
}

/// A recording of one step.
struct MuonRun {
  RecordedStep step = recorded("torch-muon.torch.default.3");
  Json group = torch_group();
  int world = 1;
  bool replicated = false, sampled = false;
  DType master = DType::fp32;
  std::function<void(std::size_t rank, SimulatedFile&)> change = [](std::size_t, SimulatedFile&) {};

  void write(const std::string& folder) const {
    for (int r = 0; r < world; ++r) {
      SimulatedFile file;
      Json& meta = file.metadata;
      meta["version"] = 1;
      meta["program"] = "simulated";
      meta["rank"] = r;
      meta["world"] = world;
      meta["step"] = 3;
      meta["micro_batches"] = 0;
      meta["reduction"] = "mean";
      meta["applied"] = true;
      meta["groups"] = Json::array();
      meta["groups"].push_back(group);
      meta["parameters"] = Json::array();
      for (const StepTensor& t : step.tensors) {
        const auto numel = static_cast<std::int64_t>(t.numel());
        const std::int64_t end = sampled ? numel - 1 : numel;
        // Cut inside of rows.
        const std::int64_t from = replicated ? 0 : end * r / world,
                           to = replicated ? end : end * (r + 1) / world;
        const Json owned = Json(Json::Items{Json(Json::Items{from, to - from})});
        Json entry = {
            {"name", "w" + t.name},
            {"shape", Json(std::vector<std::int64_t>{static_cast<std::int64_t>(t.rows),
                                                     static_cast<std::int64_t>(t.columns)})},
            {"group", 0},
            {"t", step.hyper.t},
            {"owned", owned},
            {"replicated", replicated}};
        if (sampled) entry["leaf"] = Json(Json::Items{Json(Json::Items{std::int64_t{0}, end})});
        meta["parameters"].push_back(entry);
        const auto put = [&](const std::string& kind, const std::vector<float>& values,
                             DType dtype = DType::fp32) {
          file.tensors[kind + ".w" + t.name] = {dtype,
                                                {values.begin() + from, values.begin() + to}};
        };
        put("before.grad", t.grad);
        put("before.master", t.before.master, master);
        put("before.momentum_buffer", t.before.momentum_buffer);
        put("after.master", t.after.master, master);
        put("after.momentum_buffer", t.after.momentum_buffer);
      }
      change(static_cast<std::size_t>(r), file);
      write_file(folder + "/step000003.rank" + std::to_string(r) + ".safetensors", file);
    }
  }

  /// The phase update.
  Result judged() const {
    const TemporaryFolder folder;
    write(folder.file(""));
    JudgeRunSettings settings;
    settings.folder = folder.file("");
    const RunReport report = judge_run(settings);
    return *std::ranges::find(report.results, "judge-run/update/step000003", &Result::id);
  }

  std::int64_t numel() const { return step.numel(); }
};

std::string hint_of(const Result& result) {
  return result.divergence ? result.divergence->hint : "";
}

/// A step by the formula of torch.optim.Muon, whose parts can be replaced; orthogonal matrices in fp64 (`input` fp32) or with
/// the roundings of bf16.
struct Formula {
  MuonInput input = MuonInput::bf16_norm_bf16;
  std::optional<std::pair<std::size_t, std::size_t>> cut;  ///< extents of all matrices
  std::function<double(double g, double m)> take = [](double g, double m) {
    return momentum * m + (1 - momentum) * g;
  };
  std::function<double(double g, double m, double old)> mix = [](double g, double m, double) {
    return (1 - momentum) * g + momentum * m;
  };
  std::function<Matrix(const Formula&, const Matrix&)> orthogonal =
      [](const Formula& f, const Matrix& e) { return f.iterated(e, 5); };
  std::function<double(double r, double c)> scale = [](double r, double c) {
    return std::sqrt(std::max(1.0, r / c));
  };
  std::function<double(double p, double z)> kept = [](double p, double) {
    return p * (1 - lr * decay);
  };

  Matrix iterated(const Matrix& e, int steps) const {
    return input == MuonInput::fp32
               ? exact_orthogonal(e, {NewtonSchulzSet::simple, steps}, e.norm()).back()
               : rounded_orthogonal(e, {NewtonSchulzSet::simple, steps}, MuonProducts::fused,
                                    input);
  }

  RecordedStep step() const {
    RecordedStep made = recorded("torch-muon.torch.default.3");
    if (cut)
      std::erase_if(made.tensors,
                    [&](const StepTensor& t) { return t.numel() < cut->first * cut->second; });
    for (StepTensor& t : made.tensors) {
      if (cut) {
        std::tie(t.rows, t.columns) = *cut;
        for (auto* values : {&t.grad, &t.before.momentum_buffer, &t.after.momentum_buffer,
                             &t.before.master, &t.after.master})
          values->resize(t.rows * t.columns);
      }
      Matrix e{t.rows, t.columns, std::vector<double>(t.numel())};
      for (std::size_t i = 0; i < t.numel(); ++i) {
        const double old = t.before.momentum_buffer[i];
        t.after.momentum_buffer[i] = static_cast<float>(take(t.grad[i], old));
        e.values[i] = mix(t.grad[i], t.after.momentum_buffer[i], old);
      }
      const Matrix o = orthogonal(*this, e);
      const double z = scale(static_cast<double>(t.rows), static_cast<double>(t.columns));
      for (std::size_t i = 0; i < t.numel(); ++i)
        t.after.master[i] = static_cast<float>(kept(t.before.master[i], z) - lr * z * o.values[i]);
    }
    return made;
  }
};

}  // namespace

TEST_CASE("judge-run: a step of torch.optim.Muon is named, whole, in shards and in replicas") {
  for (const int world : {1, 2, 3}) {
    for (const bool replicated : {false, true}) {
      CAPTURE(world);
      CAPTURE(replicated);
      MuonRun run;
      run.world = world;
      run.replicated = replicated;
      const Result result = run.judged();
      CAPTURE(result.reason);
      CHECK(result.status == Status::pass);
      CHECK(result.exactness == "named");
      CHECK(result.held_to == "settings");
      CHECK(result.reason == "muon: named torch-muon");
      CHECK(result.worst_ratio <= 1);
      CHECK(result.compared == 2 * run.numel());
    }
  }
}

TEST_CASE("judge-run: the choices that a muon group does not state may be any known ones") {
  for (const char* name :
       {"keller-jordan-muon.keller-jordan.default.3", "moonlight-muon.moonlight.default.3",
        "tinygrad-muon.tinygrad.default.3"}) {
    CAPTURE(name);
    MuonRun run;
    run.step = recorded(name);
    run.group = {{"rule", "muon"}, {"lr", lr}, {"weight_decay", decay}, {"momentum", momentum}};
    const Result result = run.judged();
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    CHECK(result.exactness == "named");
    run.group["scale"] = "spectral";
    const Result other = run.judged();
    CHECK(other.status == Status::fail);
    CHECK(hint_of(other).find("as if the scale were") == 0);
  }
}

TEST_CASE("judge-run: muon in fp32 is within its bound") {
  MuonRun run;
  Formula formula;
  formula.input = MuonInput::fp32;
  run.step = formula.step();
  const Result result = run.judged();
  CAPTURE(result.reason);
  CHECK(result.status == Status::pass);
  CHECK(result.exactness == "bounded");
  CHECK(result.reason == "muon: within the bound of fp32");
  CHECK(result.worst_ratio > 0);
  CHECK(result.worst_ratio <= 1);
  // A scale 0.3 % off is inside of the bound, and no rounding.
  formula.scale = [](double r, double c) { return 1.003 * std::sqrt(std::max(1.0, r / c)); };
  run.step = formula.step();
  const Result scaled = run.judged();
  CHECK(scaled.status == Status::fail);
  CHECK(hint_of(scaled).find("as if the updates were multiplied by 1.003") == 0);
  // The scale original of a part of a wide matrix is that of the whole one.
  formula.cut = {3, 5};
  run.step = formula.step();
  CHECK(hint_of(run.judged()).find("as if the updates were multiplied by 1.003") == 0);
}

TEST_CASE("judge-run: a mistake of muon is wrong in the phase update, with a hint") {
  struct Mistake {
    const char* name;
    std::function<void(Formula&)> change;
    const char* hint;
  };
  const std::vector<Mistake> mistakes = {
      {"slices",
       [](Formula& f) {
         f.orthogonal = [](const Formula& g, const Matrix& e) {
           Matrix o{e.rows, e.columns, {}};
           const std::size_t half = (e.rows + 1) / 2;
           for (const auto& [from, to] : {std::pair{std::size_t{0}, half}, {half, e.rows}}) {
             const Matrix part{to - from,
                               e.columns,
                               {e.values.begin() + static_cast<std::ptrdiff_t>(from * e.columns),
                                e.values.begin() + static_cast<std::ptrdiff_t>(to * e.columns)}};
             const Matrix result = g.iterated(part, 5);
             o.values.insert(o.values.end(), result.values.begin(), result.values.end());
           }
           return o;
         };
       },
       "as if Newton-Schulz took 2 parts of the rows of each matrix by itself"},
      {"4 steps",
       [](Formula& f) {
         f.orthogonal = [](const Formula& g, const Matrix& e) { return g.iterated(e, 4); };
       },
       "as if Newton-Schulz had 4 steps"},
      {"no scale", [](Formula& f) { f.scale = [](double, double) { return 1.0; }; },
       "as if the scale were none"},
      {"scale of a shard",
       [](Formula& f) {
         f.scale = [](double r, double c) {
           return std::sqrt(std::max(1.0, std::ceil(r / 2) / c));
         };
       },
       "as if the scale were"},
      {"scale of exchanged extents",
       [](Formula& f) {
         f.scale = [](double r, double c) { return std::sqrt(std::max(1.0, c / r)); };
       },
       "as if the scale were sqrt(max(1, columns/rows))"},
      {"clipped update",
       [](Formula& f) {
         f.scale = [](double r, double c) { return 0.158 * std::sqrt(std::max(1.0, r / c)); };
       },
       "as if the updates were multiplied by 0.158"},
      {"no decay", [](Formula& f) { f.kept = [](double p, double) { return p; }; },
       "as if the decay were none"},
      {"decay with the scaled rate",
       [](Formula& f) { f.kept = [](double p, double z) { return p * (1 - lr * z * decay); }; },
       "as if the decay were lr*z*wd"},
      {"without Nesterov", [](Formula& f) { f.mix = [](double, double m, double) { return m; }; },
       "as if nesterov were off"},
      {"heavy ball",
       [](Formula& f) {
         f.take = [](double g, double m) { return momentum * m + g; };
         f.mix = [](double g, double m, double) { return g + momentum * m; };
       },
       "as if the momentum were that of heavy ball"},
      {"Nesterov of heavy ball from a momentum of ema",
       [](Formula& f) { f.mix = [](double g, double m, double) { return g + momentum * m; }; },
       "as if Nesterov added the gradient with the weight 1 of heavy ball"},
      {"the gradient", [](Formula& f) { f.mix = [](double g, double, double) { return g; }; },
       "as if Newton-Schulz took the gradient, without momentum"},
      {"the old momentum",
       [](Formula& f) { f.mix = [](double, double, double old) { return old; }; },
       "as if Newton-Schulz took the momentum of the step before"},
      {"eps of 1",
       [](Formula& f) {
         f.orthogonal = [](const Formula&, const Matrix& e) {
           return exact_orthogonal(e, {NewtonSchulzSet::simple, 5}, 1).back();
         };
       },
       "as if eps of the norm were 1, which dominates it"},
      {"transposed once",
       [](Formula& f) {
         f.orthogonal = [](const Formula& g, const Matrix& e) {
           const Matrix o = g.iterated(e, 5);
           Matrix t = o;
           for (std::size_t i = 0; i < o.rows; ++i) {
             for (std::size_t j = 0; j < o.columns; ++j)
               t.values[j * o.rows + i] = o.values[i * o.columns + j];
           }
           return t;
         };
       },
       "as if the result of Newton-Schulz had not been transposed back"},
      {"wrong sign",
       [](Formula& f) {
         f.scale = [](double r, double c) { return -std::sqrt(std::max(1.0, r / c)); };
       },
       "the update has the wrong sign"},
  };
  for (const MuonInput input : {MuonInput::bf16_norm_bf16, MuonInput::fp32}) {
    CAPTURE(static_cast<int>(input));
    MuonRun right;
    Formula formula;
    formula.input = input;
    right.step = formula.step();
    CHECK(right.judged().status == Status::pass);
    for (const Mistake& mistake : mistakes) {
      CAPTURE(mistake.name);
      MuonRun run;
      Formula wrong;
      wrong.input = input;
      mistake.change(wrong);
      run.step = wrong.step();
      run.group["factors"] = input == MuonInput::fp32 ? "fp32" : "bf16";
      run.world = 2;
      const Result result = run.judged();
      CHECK(result.status == Status::fail);
      CHECK(result.differing > 0);
      CAPTURE(hint_of(result));
      CHECK(hint_of(result).find(mistake.hint) == 0);
    }
  }
}

TEST_CASE("judge-run: single elements of muon that are wrong") {
  const RecordedStep right = recorded("torch-muon.torch.default.3");
  const std::string name = "w" + right.tensors.back().name;
  MuonRun run;
  run.world = 2;
  run.step.tensors.back().after.momentum_buffer[40] *= 1 + 0x1p-16F;
  Result result = run.judged();
  REQUIRE(result.divergence);
  CHECK(result.divergence->buffer == "after.momentum_buffer");
  CHECK(result.divergence->parameter == name);
  CHECK(result.divergence->global_index == 40);
  CHECK(result.divergence->rank == (80 >= static_cast<int>(right.tensors.back().numel()) ? 1 : 0));
  CHECK(result.worst_ratio > 1);

  run.step = right;
  {
    StepTensor& t = run.step.tensors.back();
    std::size_t at = 0;
    const auto move = [&](std::size_t i) {
      return std::fabs(t.after.master[i] - t.before.master[i]);
    };
    for (std::size_t i = 0; i < t.numel(); ++i) at = move(i) > move(at) ? i : at;
    t.after.master[at] = t.before.master[at];  // not written
    result = run.judged();
    REQUIRE(result.divergence);
    CHECK(result.divergence->buffer == "after.master");
    CHECK(result.divergence->global_index == static_cast<std::int64_t>(at));
    CHECK(result.differing == 1);
    CAPTURE(hint_of(result));
    CHECK(hint_of(result).find("as if single elements were not those of the update: one of " +
                               name) == 0);
  }

  run.step = right;
  run.replicated = true;
  run.change = [&](std::size_t rank, SimulatedFile& file) {
    if (rank == 1) file.tensors["after.master." + name].values[5] += 1;
  };
  result = run.judged();
  REQUIRE(result.divergence);
  CHECK(result.divergence->rank == 1);
  CHECK(result.divergence->global_index == 5);
}

TEST_CASE("judge-run: one wrong matrix of muon does not make a step in fp32 one in bf16") {
  MuonRun run;
  Formula formula;
  formula.input = MuonInput::fp32;
  const RecordedStep right = formula.step();
  run.step = right;
  StepTensor& t = run.step.tensors.back();
  for (std::size_t i = 0; i < t.numel() / 2; ++i)
    t.after.master[i] += 0.02F * (t.after.master[i] - t.before.master[i]);
  const Result shard = run.judged();
  CHECK(shard.status == Status::fail);
  REQUIRE(shard.divergence);
  CHECK(shard.divergence->parameter == "w" + t.name);
  CHECK(hint_of(shard).find("as if Nesterov") == std::string::npos);

  // Rank 1: in bf16 its roundings are as large as the result.
  t = right.tensors.back();
  for (std::size_t i = 0; i < t.numel(); ++i) {
    t.grad[i] = t.before.momentum_buffer[i] = t.after.momentum_buffer[i] =
        static_cast<float>(1 + i / t.columns) * static_cast<float>(1 + i % t.columns);
    t.after.momentum_buffer[i] =
        static_cast<float>(momentum * t.before.momentum_buffer[i] + (1 - momentum) * t.grad[i]);
    t.after.master[i] = t.before.master[i] + 1;
  }
  CHECK(run.judged().status == Status::fail);
}

TEST_CASE("judge-run: muon with factors that are given has no others") {
  const auto judged = [](const RecordedStep& step, const char* factors) {
    MuonRun run;
    run.step = step;
    run.group["factors"] = factors;
    const Result result = run.judged();
    CAPTURE(result.reason);
    CHECK(result.compared > 0);
    return result;
  };
  Formula formula;
  formula.input = MuonInput::fp32;
  RecordedStep single = formula.step();
  single.tensors.erase(single.tensors.begin(), single.tensors.end() - 1);
  const Result right = judged(single, "fp32");
  CHECK(right.status == Status::pass);
  CHECK(right.reason == "muon: within the bound of fp32");
  CHECK(right.worst_ratio > 0);
  CHECK(right.worst_ratio <= 1);
  const Result stated_bf16 = judged(single, "bf16");
  CHECK(stated_bf16.status == Status::fail);
  CHECK(hint_of(stated_bf16) == "as if Newton-Schulz had factors of fp32");

  // One matrix, half of it 2 % too far: within the noise of bf16.
  StepTensor& t = single.tensors.back();
  for (std::size_t i = 0; i < t.numel() / 2; ++i)
    t.after.master[i] += 0.02F * (t.after.master[i] - t.before.master[i]);
  const Result half = judged(single, "fp32");
  CHECK(half.status == Status::fail);
  CHECK(half.differing > 0);
  CAPTURE(hint_of(half));
  CHECK(hint_of(half).ends_with(" times the noise of fp32 away"));
  CHECK(judged(single, "bf16").exactness == "named");

  const RecordedStep torch = recorded("torch-muon.torch.default.3");
  CHECK(judged(torch, "bf16").reason == "muon: named torch-muon");
  const Result narrow = judged(torch, "fp32");
  CHECK(narrow.status == Status::fail);
  CHECK(hint_of(narrow) == "as if Newton-Schulz had factors of bf16");
}

TEST_CASE("judge-run: the hint names the matrix of muon that is wrong") {
  const auto hint = [](const std::function<void(Formula&)>& change) {
    Formula formula;
    formula.input = MuonInput::fp32;
    MuonRun run;
    run.step = formula.step();
    change(formula);
    run.step.tensors.back() = formula.step().tensors.back();
    return hint_of(run.judged());
  };
  const std::string name = "w" + recorded("torch-muon.torch.default.3").tensors.back().name;
  const auto ends = [&](const std::string& text) {
    CAPTURE(text);
    CHECK(text.ends_with(" in " + name));
  };
  ends(hint([](Formula& f) {
    f.scale = [](double r, double c) { return 1.02 * std::sqrt(std::max(1.0, r / c)); };
  }));
  ends(hint([](Formula& f) { f.kept = [](double p, double) { return p; }; }));
  const std::string sign = hint([](Formula& f) {
    f.scale = [](double r, double c) { return -std::sqrt(std::max(1.0, r / c)); };
  });
  CHECK(sign == "the update of " + name + " has the wrong sign");
}

TEST_CASE("judge-run: one element of a large matrix of muon in fp32 is wrong within the bound") {
  MuonRun run;
  run.step.tensors.resize(1);
  StepTensor& t = run.step.tensors[0];
  t.rows = t.columns = 96;
  const auto draw = [&](std::vector<float>& values, double scale) {
    values.resize(t.rows * t.columns);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(scale * std::sin(1.7 * static_cast<double>(i * i % 9973)));
  };
  draw(t.grad, 0.05);
  draw(t.before.momentum_buffer, 0.01);
  draw(t.before.master, 0.02);
  t.after = t.before;
  Matrix e{t.rows, t.columns, std::vector<double>(t.numel())};
  for (std::size_t i = 0; i < t.numel(); ++i) {
    t.after.momentum_buffer[i] =
        static_cast<float>(momentum * t.before.momentum_buffer[i] + (1 - momentum) * t.grad[i]);
    e.values[i] = (1 - momentum) * t.grad[i] + momentum * t.after.momentum_buffer[i];
  }
  const Matrix o = exact_orthogonal(e, {NewtonSchulzSet::simple, 5}, e.norm()).back();
  for (std::size_t i = 0; i < t.numel(); ++i)
    t.after.master[i] =
        static_cast<float>(t.before.master[i] * (1 - lr * decay) - lr * o.values[i]);
  CHECK(run.judged().status == Status::pass);
  t.after.master[1234] = t.before.master[1234];
  const Result result = run.judged();
  CHECK(result.status == Status::fail);
  CHECK(result.differing == 1);
  CHECK(hint_of(result).find("as if single elements were not those of the update") == 0);
}

TEST_CASE("judge-run: muon of matrices with a few elements, in both formats") {
  for (const MuonInput input : {MuonInput::bf16_norm_bf16, MuonInput::fp32}) {
    for (const std::pair<std::size_t, std::size_t> extents :
         {std::pair{1, 1}, {1, 2}, {2, 1}, {3, 1}, {2, 3}}) {
      CAPTURE(static_cast<int>(input));
      CAPTURE(extents.first);
      CAPTURE(extents.second);
      MuonRun run;
      Formula formula;
      formula.input = input;
      formula.cut = extents;
      run.step = formula.step();
      run.group["factors"] = input == MuonInput::fp32 ? "fp32" : "bf16";
      const Result result = run.judged();
      CAPTURE(result.reason);
      CHECK(result.status == Status::pass);
      StepTensor& t = run.step.tensors.back();
      t.after.master[0] += 0.1F;
      CHECK(run.judged().status == Status::fail);
    }
  }
}

TEST_CASE("judge-run: muon with infinities, NaN, and a rate below the roundings") {
  for (const float odd : {HUGE_VALF, NAN}) {
    CAPTURE(odd);
    const auto right_with = [&](const std::function<void(StepTensor&)>& change) {
      MuonRun run;
      Formula formula;
      formula.input = MuonInput::fp32;
      run.step = formula.step();
      change(run.step.tensors[1]);
      const Result result = run.judged();
      CAPTURE(result.reason);
      CHECK(result.status == Status::pass);
      CHECK(result.reason.find("muon: not judged: 1 matrix") == 0);
    };
    right_with([&](StepTensor& t) {
      t.grad[3] = t.after.momentum_buffer[3] = odd;
      std::ranges::fill(t.after.master, NAN);
    });
    right_with([&](StepTensor& t) {
      t.before.momentum_buffer[3] = t.after.momentum_buffer[3] = odd;
      std::ranges::fill(t.after.master, NAN);
    });
    right_with([&](StepTensor& t) { t.before.master[3] = t.after.master[3] = odd; });

    // A matrix that is too small to be judged, whose parameter becomes `odd`.
    MuonRun run;
    StepTensor& t = run.step.tensors[1];
    for (auto* values : {&t.grad, &t.before.momentum_buffer, &t.after.momentum_buffer}) {
      for (float& x : *values) x *= 0x1p-80F;
    }
    CHECK(run.judged().status == Status::pass);
    t.after.master[7] = odd;
    const Result result = run.judged();
    CHECK(result.status == Status::fail);
    CHECK(result.differing == 1);
    REQUIRE(result.divergence);
    CHECK(result.divergence->parameter == "w" + t.name);
    CHECK(result.divergence->global_index == 7);
  }
  MuonRun tiny;
  tiny.group["lr"] = 1e-10;
  for (StepTensor& t : tiny.step.tensors) t.after.master = t.before.master;
  const Result result = tiny.judged();
  CHECK(result.status == Status::pass);
  CHECK(result.reason.find("with roundings as large as the result") != std::string::npos);
}

TEST_CASE("judge-run: matrices of muon too large to be evaluated move, and not too far") {
  MuonRun run;
  run.step.tensors.resize(1);
  StepTensor& t = run.step.tensors[0];
  t.rows = t.columns = 513;
  t.before.master.assign(t.rows * t.columns, 0.0F);
  t.grad = t.before.master;
  t.before.momentum_buffer = t.before.master;
  for (std::size_t i = 0; i < t.grad.size(); ++i)
    t.grad[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i * i % 9973)));
  t.after = t.before;
  for (std::size_t i = 0; i < t.grad.size(); ++i) {
    t.before.master[i] = 0.02F * t.grad[i];
    t.after.momentum_buffer[i] = static_cast<float>((1 - momentum) * t.grad[i]);
    // As large as an orthogonal matrix.
    t.after.master[i] = static_cast<float>(t.before.master[i] * (1 - lr * decay) -
                                           lr * 1.4 * t.grad[i] / std::sqrt(513.0));
  }
  const Result right = run.judged();
  CAPTURE(right.reason);
  CHECK(right.status == Status::pass);
  CHECK(right.reason.find("too large") != std::string::npos);
  CHECK(right.exactness == "partial");  // the momentum alone is within a bound
  const std::vector<float> master = t.after.master;
  t.after.master = t.before.master;
  CHECK(run.judged().status == Status::fail);
  t.after.master = master;
  t.after.master[7] = NAN;
  CHECK(run.judged().differing == 1);
  t.after.master = master;
  for (float& x : t.after.master) x += 0.1F;
  CHECK(run.judged().status == Status::fail);
}

TEST_CASE("judge-run: matrices of muon that are not judged are not right") {
  const auto skipped = [](const std::function<void(MuonRun&)>& change, const std::string& reason) {
    MuonRun run;
    change(run);
    const Result result = run.judged();
    CAPTURE(result.reason);
    CHECK(result.reason.find(reason) != std::string::npos);
    return result;
  };
  const Result sampled = skipped([](MuonRun& run) { run.sampled = true; },
                                 "whole matrices, which Newton-Schulz needs");
  CHECK(sampled.status == Status::skipped);
  CHECK(sampled.compared == 0);
  CHECK(skipped([](MuonRun& run) { run.master = DType::bf16; }, "has 16 bits").status ==
        Status::skipped);
  const auto nan = [](MuonRun& run) {
    StepTensor& t = run.step.tensors[1];
    t.grad[3] = t.after.momentum_buffer[3] = NAN;
    std::ranges::fill(t.after.master, NAN);
  };
  CHECK(skipped(nan, "1 matrix with NaN or an infinity in the gradient").status == Status::pass);
  const Result edge =
      skipped([](MuonRun& run) { run.step = recorded("torch-muon.torch.edge.1"); },
              "1 matrix near the floor of the norm, 1 matrix too large or without a finite norm");
  CHECK(edge.status == Status::pass);
}

TEST_CASE("judge-run: muon with a rate of 0, and without a direction") {
  MuonRun run;
  run.group["lr"] = 0.0;
  for (StepTensor& t : run.step.tensors) t.after.master = t.before.master;
  CHECK(run.judged().status == Status::pass);
  CHECK(run.judged().exactness == "bounded");
  run.step.tensors[0].after.master[2] += 0.25F;
  CHECK(run.judged().status == Status::fail);

  run = {};
  for (StepTensor& t : run.step.tensors) {
    for (auto* values : {&t.grad, &t.before.momentum_buffer, &t.after.momentum_buffer})
      std::ranges::fill(*values, 0.0F);
    for (std::size_t i = 0; i < t.numel(); ++i)
      t.after.master[i] = t.before.master[i] * static_cast<float>(1 - lr * decay);
  }
  CHECK(run.judged().status == Status::pass);
  for (StepTensor& t : run.step.tensors) t.after.master = t.before.master;
  CHECK(run.judged().status == Status::fail);
}

TEST_CASE("judge-run: settings and shapes of muon groups that cannot be used") {
  const auto refused = [](const std::function<void(MuonRun&)>& change) -> std::string {
    MuonRun run;
    change(run);
    try {
      run.judged();
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::io);
      return error.what();
    }
    return "";
  };
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(refused([](MuonRun& run) { run.group["scale"] = "orignal"; }), "original");
  has(refused([](MuonRun& run) { run.group["factors"] = "fp16"; }), "factors is 'fp16'");
  has(refused([](MuonRun& run) { run.group["steps"] = 0; }), "steps is '0'");
  has(refused([](MuonRun& run) { run.group["steps"] = 4.7; }), "steps is '4.7'");
  has(refused([](MuonRun& run) { run.group["beta1"] = 0.9; }), "beta1 is no setting of muon");
  has(refused([](MuonRun& run) {
        run.change = [](std::size_t, SimulatedFile& file) {
          file.tensors.erase("before.momentum_buffer.w0");
        };
      }),
      "before.momentum_buffer.w0");
  has(refused([](MuonRun& run) {
        run.change = [](std::size_t, SimulatedFile& file) {
          const Json old = file.metadata.at("parameters");
          Json changed = Json::array();
          for (const Json& one : old) {
            Json entry = one;
            entry["shape"] =
                Json(std::vector<std::int64_t>{one.at("shape").begin()[0].get<std::int64_t>(),
                                               one.at("shape").begin()[1].get<std::int64_t>(), 1});
            changed.push_back(entry);
          }
          file.metadata["parameters"] = changed;
        };
      }),
      "3 dimensions and the rule muon");
}

TEST_CASE("judge-run --against: muon is compared in bits alone") {
  const auto compared = [](const MuonRun& a, const MuonRun& b) {
    const TemporaryFolder first, second;
    a.write(first.file(""));
    b.write(second.file(""));
    JudgeAgainstSettings settings;
    settings.folders = {first.file(""), second.file("")};
    const RunReport report = judge_against(settings);
    return *std::ranges::find(report.results, "against/update/step000003", &Result::id);
  };
  MuonRun one, two;
  two.world = 2;
  const Result same = compared(one, two);
  CHECK(same.status == Status::pass);
  CHECK(same.exactness == "bitwise");
  two.step.tensors[0].after.master[0] = std::nextafter(two.step.tensors[0].after.master[0], 1.0F);
  const Result other = compared(one, two);
  CAPTURE(other.reason);
  CHECK(other.status != Status::fail);
  CHECK(other.exactness != "bitwise");
  CHECK(other.reason.find("no bound for this rule") != std::string::npos);
}

}  // namespace judge_muon_test
