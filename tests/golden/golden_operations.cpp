#include <array>
#include <bit>
#include <functional>
#include <stdexcept>
#include <utility>

#include "golden_rows.hpp"
#include "oracle_compare.hpp"

namespace zeroproof::golden {
namespace {

using namespace zeroproof::oracle;

// Lengths: the first scalar set of every operation gets more than two blocks of the host twins, so that threads share
// the work; the others stay short, because they run at -O0 too.
constexpr std::int64_t long_numel = 40001;
constexpr std::int64_t short_numel = 1031;

constexpr Family families[] = {Family::any_bits, Family::special,   Family::near_subnormal,
                               Family::training, Family::cast_ties, Family::every_pattern};

Digest digest_operation(const Operation& op, const Twin& twin, int threads) {
  Exec exec = twin.exec;
  exec.num_threads = threads;
  Hasher hasher;
  Workspace space;
  for (int set = 0; set < op.sets; ++set) {
    for (const Family family : op.families) {
      const Operands operands = space.prepare(op, set == 0 ? long_numel : short_numel);
      fill_inputs(op, family, 1000003 * static_cast<std::uint64_t>(set), operands);
      const bool found = op.run(twin, exec, set, operands);
      hasher.add(name(family));
      hasher.add(std::uint64_t{found ? 1U : 0U});
      for (std::size_t k = 0; k < op.out_types.size(); ++k) {
        hasher.add(TensorView{operands.out[k], op.out_types[k], operands.numel});
      }
    }
  }
  return hasher.digest();
}

std::vector<float> values_of(Family family, std::uint64_t first, std::int64_t numel) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < numel; ++i)
    values.push_back(make_quad(family, first + static_cast<std::uint64_t>(i))[0]);
  return values;
}

void add_view(Hasher& hasher, std::vector<float>& values) {
  hasher.add(TensorView{values.data(), DType::fp32, static_cast<std::int64_t>(values.size())});
}

/// Limbs and norm over pieces of several lengths; with and without values that are not finite.
void norm(const Twin& twin, const Exec& exec, Hasher& hasher) {
  for (const Family family : {Family::training, Family::near_subnormal, Family::any_bits, Family::special}) {
    for (const std::int64_t numel : {0, 1, 31, 33, 1023, 1024, 1025, 40001}) {
      const std::vector<float> grad = values_of(family, 7, numel);
      NormLimbs limbs;
      twin.grad_norm_accumulate(exec, grad, limbs);
      twin.grad_norm_normalise(limbs);
      for (const std::uint64_t limb : limbs.limbs) hasher.add(limb);
      hasher.add(limbs.nan_count);
      hasher.add(limbs.inf_count);
      hasher.add(twin.grad_norm_finish(limbs));
    }
  }
}

void clip_coef(const Twin& twin, const Exec&, Hasher& hasher) {
  for (const double max_norm : {0.0, 0x1p-1074, 1e-3, 1.0, 5.0, 1e300}) {
    for (const double grad_norm : {0.0, 0x1p-1074, 1e-6, 0.3, 1.0, 1.000001, 7.5e9, 0x1p1023}) {
      float coef = twin.clip_coef(grad_norm, max_norm);
      hasher.add(TensorView{&coef, DType::fp32, 1});
    }
  }
}

void tree(const Twin& twin, const Exec& exec, Hasher& hasher) {
  std::vector<std::vector<float>> leaves;
  for (std::uint64_t count = 1; count <= 17; ++count) {
    leaves.push_back(
        values_of(count % 2 == 0 ? Family::training : Family::near_subnormal, count << 20, 20011));
    const std::vector<Span<const float>> views(leaves.begin(), leaves.end());
    std::vector<float> sum(20011);
    twin.grad_sum(exec, views, sum);
    add_view(hasher, sum);
  }
}

struct Other {
  const char* name;
  void (*digest)(const Twin&, const Exec&, Hasher&);
};
/// What is not element-wise. A new one is one more line.
constexpr Other others[] = {{"norm", norm}, {"clip_coef", clip_coef}, {"tree", tree}};

/// The digest all twins agree on.
Row agreed(const std::string& name, bool host_only, const std::function<Digest(const Twin&)>& digest) {
  std::vector<std::pair<std::string, Digest>> seen;
  for (const Twin& twin : all_twins()) {
    if (host_only && !twin.is_host) continue;
    seen.emplace_back(twin.name, digest(twin));
    if (seen.back().second == seen.front().second) continue;
    throw std::runtime_error(name + ": " + seen.back().first + " has " + to_hex(seen.back().second) +
                             " and " + seen.front().first + " has " + to_hex(seen.front().second));
  }
  return {name, seen.front().second};
}

}  // namespace

std::vector<Row> input_rows() {
  std::vector<Row> rows;
  for (const Family family : families) {
    Hasher hasher;
    for (std::uint64_t i = 0; i < long_numel; ++i) {
      Quad quad = make_quad(family, i);
      hasher.add(TensorView{quad.data(), DType::fp32, 4});
    }
    rows.push_back({std::string("input ") + name(family), hasher.digest()});
  }
  return rows;
}

std::vector<Row> operation_rows(int threads) {
  std::vector<Row> rows;
  for (const Operation& op : all_operations()) {
    rows.push_back(agreed(std::string("op ") + op.name, op.host_only,
                          [&](const Twin& twin) { return digest_operation(op, twin, threads); }));
  }
  for (const Other& other : others) {
    rows.push_back(agreed(std::string("op ") + other.name, false, [&](const Twin& twin) {
      Exec exec = twin.exec;
      exec.num_threads = threads;
      Hasher hasher;
      other.digest(twin, exec, hasher);
      return hasher.digest();
    }));
  }
  return rows;
}

}  // namespace zeroproof::golden
