#pragma once
// A training of AdamW on 1 to 4 ranks, recorded as verification/tools/judge_run/README.md says, with faults to plant.

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "common/io/json.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::tests {

struct SimulatedTensor {
  DType dtype = DType::fp32;
  std::vector<float> values;
};

/// One file, before it is written.
struct SimulatedFile {
  Json metadata = Json::object();
  std::map<std::string, SimulatedTensor> tensors;
};

inline float in_format(DType dtype, float x) {
  return dtype == DType::bf16   ? to_float(to_bf16(x))
         : dtype == DType::fp16 ? to_float(to_fp16(x))
                                : x;
}

/// Not inlined: g++ 12.2 with -O1 drops the mask in the loop below, and keeps it with -O0.
[[gnu::noinline]] inline float cut_to_bf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  bits &= 0xFFFF0000U;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

inline void write_file(const std::string& path, const SimulatedFile& file) {
  std::vector<SafeTensorSpec> specs;
  for (const auto& [name, t] : file.tensors)
    specs.push_back({name, safe_dtype(t.dtype), {static_cast<std::int64_t>(t.values.size())}});
  SafetensorsWriter writer(path, specs, {{"zeroproof_recording", file.metadata.dump()}});
  for (const auto& [name, t] : file.tensors) {
    if (t.dtype == DType::fp32) {
      writer.write(name, std::as_bytes(Span<const float>(t.values)));
      continue;
    }
    std::vector<std::uint16_t> codes;
    for (const float x : t.values)
      codes.push_back(t.dtype == DType::bf16 ? to_bf16(x).bits : to_fp16(x).bits);
    writer.write(name, std::as_bytes(Span<const std::uint16_t>(codes)));
  }
  writer.finish();
}

/// Of one parameter on one rank.
struct SimulatedState {
  std::vector<float> master, exp_avg, exp_avg_sq, model;
  std::int64_t t = 0;
};

struct Simulation {
  int world = 2, micro = 2, steps = 3;
  bool replicated = false, mean = true, sampled = false;
  bool backwards = false;       ///< sums begin with the last rank
  bool shares_batches = false;  ///< as many ranks times micro-batches have the same batches
  DType leaf = DType::fp32, model = DType::fp32, accumulate = DType::fp32;
  bool reduced_one_by_one = false;  ///< each micro-batch in `accumulate`, and added in fp32
  double loss_scale = 1, norm_type = 2, eps = 1e-3;
  std::optional<double> max_norm;
  std::set<int> overflows;  ///< steps
  bool reports_norm = true;
  std::string dialect = "torch-cpu-single";
  // A fault, at a step and on a rank.
  std::string fault;
  int at_step = 2, on_rank = 1;

  bool has(const char* name, int step) const { return fault == name && step == at_step; }
  bool has(const char* name, int step, int rank) const {
    return has(name, step) && rank == on_rank;
  }

  struct Parameter {
    std::string name;
    std::vector<std::int64_t> shape;
    int group = 0;
    std::int64_t numel() const {
      std::int64_t n = 1;
      for (const std::int64_t size : shape) n *= size;
      return n;
    }
  };
  std::vector<Parameter> parameters = {
      {"wte.weight", {7, 5}, 0}, {"h.0.bias", {3}, 1}, {"scale", {}, 1}, {"head.weight", {61}, 0}};
  std::vector<double> rates = {};  ///< of updates 1, 2, ..., as factors; empty: constant
  double lr(int group, std::int64_t t) const {
    const double factor = rates.empty() ? 1 : rates.at(static_cast<std::size_t>(t) - 1);
    return (group == 0 ? 1e-2 : 3e-3) * factor;
  }
  double decay(int group) const { return group == 0 ? 0.1 : 0; }

  std::vector<std::int64_t> recorded(const Parameter& p) const {
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < p.numel(); ++i) {
      if (!sampled || p.numel() < 10 || (i >= 2 && i < 12) || (i >= 20 && i < 29))
        elements.push_back(i);
    }
    return elements;
  }
  /// Uneven cuts; the last rank of three or more has nothing of the first parameter.
  int owner(const Parameter& p, std::int64_t i) const {
    if (p.name == "h.0.bias") return world - 1;
    if (p.name == "scale") return 0;
    const int sharing = p.name == "wte.weight" && world > 2 ? world - 1 : world;
    const std::int64_t cut = p.numel() / sharing + 1;
    return static_cast<int>(std::min<std::int64_t>(i / cut, sharing - 1));
  }
  bool owns(int rank, const Parameter& p, std::int64_t i) const {
    return replicated || owner(p, i) == rank;
  }

  std::map<std::string, SimulatedFile> files() const;
  void write(const std::string& folder) const {
    for (const auto& [name, file] : files()) write_file(folder + "/" + name, file);
  }
};

inline Json blocks_of(const std::vector<std::int64_t>& elements) {
  Json blocks = Json::array();
  for (std::size_t i = 0; i < elements.size();) {
    std::size_t end = i + 1;
    while (end < elements.size() && elements[end] == elements[end - 1] + 1) ++end;
    blocks.push_back(Json(Json::Items{elements[i], static_cast<std::int64_t>(end - i)}));
    i = end;
  }
  return blocks;
}

inline std::map<std::string, SimulatedFile> Simulation::files() const {
  using verification::find_dialect;
  std::uint32_t counter = 0;
  const auto uniform = [&] {
    return static_cast<float>(static_cast<std::int32_t>(philox4x32({counter++, 0, 0, 35}, 7)[0])) *
           0x1p-31F;
  };
  // State of each rank, whole, of which it updates its elements.
  std::vector<std::vector<SimulatedState>> state(static_cast<std::size_t>(world));
  for (const Parameter& p : parameters) {
    SimulatedState first;
    for (std::int64_t i = 0; i < p.numel(); ++i) first.master.push_back(uniform());
    first.exp_avg.assign(first.master.size(), 0.0F);
    first.exp_avg_sq = first.exp_avg;
    for (const float x : first.master) first.model.push_back(in_format(model, x));
    for (auto& rank : state) rank.push_back(first);
  }
  std::map<std::string, SimulatedFile> all;
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t now = state[0][0].t + 1;
    // Gradients.
    std::vector<std::vector<std::vector<std::vector<float>>>> leaves;  // [rank][micro][parameter]
    std::vector<std::vector<float>> reduced;                           // [parameter]
    for (int r = 0; r < world; ++r) {
      auto& of_rank = leaves.emplace_back();
      for (int m = 0; m < micro; ++m) {
        auto& of_micro = of_rank.emplace_back();
        for (const Parameter& p : parameters) {
          auto& g = of_micro.emplace_back();
          const auto factor_of_rank = static_cast<float>(shares_batches ? world : r + 1);
          for (std::int64_t i = 0; i < p.numel(); ++i)
            g.push_back(in_format(
                leaf, uniform() * 0.25F * factor_of_rank * static_cast<float>(loss_scale)));
        }
      }
    }
    const bool overflow = overflows.contains(step);
    if (overflow) leaves.back().back().back()[2] = HUGE_VALF;
    const auto factor = mean ? 1.0F / static_cast<float>(world) : 1.0F;
    std::vector<std::vector<float>> sums;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      auto& sum = reduced.emplace_back(leaves[0][0][p].size(), 0.0F);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        for (int m = 0; m < micro && reduced_one_by_one; ++m) {
          float one = 0;
          for (int r = 0; r < world; ++r) one = in_format(accumulate, one + leaves[r][m][p][i]);
          sum[i] += in_format(accumulate, one * factor);
        }
        if (reduced_one_by_one) continue;
        for (int k = 0; k < world; ++k) {
          const int r = backwards ? world - 1 - k : k;
          if (has("one rank left out", step, r)) continue;
          for (int m = 0; m < micro; ++m) {
            if (has("micro-batch left out", step) && m == micro - 1) continue;
            sum[i] = in_format(accumulate, sum[i] + leaves[r][m][p][i]);
          }
        }
        if (!has("mean forgotten", step)) sum[i] = in_format(accumulate, sum[i] * factor);
        if (has("divided twice", step)) sum[i] *= factor;
      }
    }
    bool finite = true;
    for (const auto& g : reduced) {
      for (const float x : g) finite = finite && std::isfinite(x);
    }
    // Norm, of everything and of each rank's shard.
    std::vector<double> powers(static_cast<std::size_t>(world) + 1, 0);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::size_t i = 0; i < reduced[p].size(); ++i) {
        const double x = std::fabs(static_cast<double>(reduced[p][i]) / loss_scale);
        const auto into = [&](double& power) {
          power = std::isinf(norm_type) ? std::max(power, x) : power + std::pow(x, norm_type);
        };
        into(powers.back());
        for (int r = 0; r < world; ++r) {
          if (owns(r, parameters[p], static_cast<std::int64_t>(i))) into(powers[r]);
        }
        const bool twice = has("shard counted twice", step) &&
                           parameters[p].name == "head.weight" &&
                           owner(parameters[p], static_cast<std::int64_t>(i)) == on_rank;
        if (twice) into(powers.back());
        if (has("replicas counted", step)) {
          for (int r = 1; r < world; ++r) into(powers.back());
        }
      }
    }
    const auto norm_of = [&](double power) {
      return std::isinf(norm_type) ? power : std::pow(power, 1 / norm_type);
    };
    for (int r = 0; r < world; ++r) {
      SimulatedFile file;
      Json& meta = file.metadata;
      double norm = norm_of(has("local norm", step, r) ? powers[r] : powers.back());
      const double of_scaled = has("norm of scaled gradients", step) ? loss_scale : 1;
      const auto limit = static_cast<float>(max_norm.value_or(0));
      float c = 1;
      if (max_norm) c = std::min(1.0F, limit / (static_cast<float>(norm * of_scaled) + 1e-6F));
      if (has("clip twice", step, r)) c *= c;
      bool applied = finite;
      if (has("skip on one rank", step, r)) applied = false;
      meta["version"] = 1;
      meta["program"] = "simulated";
      meta["rank"] = r;
      meta["world"] = world;
      meta["step"] = step;
      meta["micro_batches"] = micro;
      meta["reduction"] = mean ? "mean" : "sum";
      meta["loss_scale"] = has("other scale", step, r) ? 2 * loss_scale : loss_scale;
      meta["applied"] = applied;
      meta["max_norm"] = max_norm ? Json(*max_norm) : Json(nullptr);
      if (reports_norm && finite) meta["norm"] = static_cast<double>(static_cast<float>(norm));
      if (std::isinf(norm_type))
        meta["norm_type"] = "inf";
      else
        meta["norm_type"] = norm_type;
      meta["groups"] = Json::array();
      for (const int g : {0, 1})
        meta["groups"].push_back(
            {{"rule", "adamw"},
             {"lr", has("other settings", step, r) && g == 1 ? 1.0 : lr(g, now)},
             {"beta1", 0.9},
             {"beta2", 0.999},
             {"eps", eps},
             {"weight_decay", decay(g)}});
      meta["parameters"] = Json::array();
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const Parameter& parameter = parameters[p];
        SimulatedState& s = state[r][p];
        std::vector<std::int64_t> owned, recorded_owned;
        double squares = 0;
        for (std::int64_t i = 0; i < parameter.numel(); ++i) {
          if (!owns(r, parameter, i)) continue;
          owned.push_back(i);
          squares += static_cast<double>(reduced[p][i]) * reduced[p][i];
        }
        for (const std::int64_t i : recorded(parameter)) {
          if (owns(r, parameter, i)) recorded_owned.push_back(i);
        }
        const auto put = [&](const std::string& kind, const std::vector<float>& whole,
                             DType dtype = DType::fp32, bool everything = false) {
          SimulatedTensor& t = file.tensors[kind + "." + parameter.name];
          t.dtype = dtype;
          for (const std::int64_t i : everything ? recorded(parameter) : recorded_owned)
            t.values.push_back(whole[i]);
        };
        for (int m = 0; m < micro; ++m)
          put("leaf." + std::to_string(m), leaves[r][m][p], leaf, true);
        put("reduced", reduced[p]);
        if (has("other bits on a replica", step, r) && p == 0) {
          float& x = file.tensors["reduced." + parameter.name].values[2];
          x = std::nextafter(x, HUGE_VALF);
        }
        if (has("moment lost", step, r)) s.exp_avg.assign(s.exp_avg.size(), 0.0F);
        std::vector<float> grad = reduced[p];
        for (float& x : grad) x = x * static_cast<float>(1 / loss_scale) * c;
        put("before.grad", grad);
        put("before.master", s.master);
        put("before.exp_avg", s.exp_avg);
        put("before.exp_avg_sq", s.exp_avg_sq);
        const bool updates = applied || has("update on a skipped step", step, r);
        if (updates) {
          const bool stale_count = has("t not increased", step);
          s.t += stale_count ? 0 : 1;
          verification::DialectHyper h;
          h.lr = has("wrong rate", step) && parameter.group == 1 ? lr(0, now)
                                                                 : lr(parameter.group, now);
          h.eps = eps;
          h.weight_decay = decay(parameter.group);
          h.t = s.t;
          const auto gather = [&](const std::vector<float>& whole) {
            std::vector<float> mine;
            for (const std::int64_t i : owned) mine.push_back(whole[i]);
            return mine;
          };
          const std::vector<float> mine = gather(grad);
          std::vector<float> master = gather(s.master), m = gather(s.exp_avg),
                             v = gather(s.exp_avg_sq);
          const std::vector<float> was = master;
          if (has("decay after the update", step) || has("eps in the root", step)) {
            const double bc1 = 1 - std::pow(0.9, h.t), bc2 = 1 - std::pow(0.999, h.t);
            for (std::size_t i = 0; i < mine.size(); ++i) {
              m[i] = static_cast<float>(0.9 * m[i] + 0.1 * mine[i]);
              v[i] = static_cast<float>(0.999 * v[i] + 0.001 * mine[i] * mine[i]);
              const bool inside = has("eps in the root", step);
              const double e = eps;
              const double d = inside ? std::sqrt(v[i] / bc2 + e) : std::sqrt(v[i] / bc2) + e;
              const double a = h.lr * (m[i] / bc1) / d;
              const double k = 1 - h.lr * h.weight_decay;
              master[i] = static_cast<float>(inside ? master[i] * k - a : (master[i] - a) * k);
            }
          } else {
            verification::update(*find_dialect(dialect), h, false, {mine, master, m, v, {}, {}});
          }
          for (std::size_t k = 0; k < owned.size(); ++k) {
            s.master[owned[k]] = master[k];
            s.exp_avg[owned[k]] = m[k];
            s.exp_avg_sq[owned[k]] = v[k];
          }
          if (has("not applied", step, r)) {
            for (std::size_t k = 0; k < owned.size(); ++k) s.master[owned[k]] = was[k];
          }
        }
        put("after.master", s.master);
        put("after.exp_avg", s.exp_avg);
        put("after.exp_avg_sq", s.exp_avg_sq);
        Json entry = {{"name", parameter.name},
                      {"shape", Json(parameter.shape)},
                      {"group", parameter.group},
                      {"t", s.t},
                      {"owned", blocks_of(recorded_owned)}};
        if (parameter.shape.empty()) entry["shape"] = Json::array();
        if (sampled) {
          entry["leaf"] = blocks_of(recorded(parameter));
          entry["sum_squares"] = std::isfinite(squares) ? Json(squares) : Json("inf");
        }
        if (replicated) entry["replicated"] = true;
        meta["parameters"].push_back(entry);
      }
      char name[64];
      std::snprintf(name, sizeof(name), "step%06d.rank%d.safetensors", step, r);
      all[name] = std::move(file);
    }
    // The model of every rank, from the masters of the owners.
    for (int r = 0; r < world; ++r) {
      char name[64];
      std::snprintf(name, sizeof(name), "step%06d.rank%d.safetensors", step, r);
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        SimulatedState& s = state[r][p];
        for (std::int64_t i = 0; i < parameters[p].numel(); ++i) {
          const int from = replicated ? r : owner(parameters[p], i);
          // Rank 0 does not get the elements of the faulty rank.
          if (has("stale shard", step) && r == 0 && from == on_rank) continue;
          const float x = state[from][p].master[i];
          s.model[i] = has("truncated", step, r) ? cut_to_bf16(x) : in_format(model, x);
        }
        SimulatedTensor& t = all[name].tensors["model." + parameters[p].name];
        t.dtype = model;
        for (const std::int64_t i : recorded(parameters[p])) t.values.push_back(s.model[i]);
      }
    }
  }
  return all;
}

}  // namespace zeroproof::tests
