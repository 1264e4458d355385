// A whole step of Muon by the contract (R28), around the example's AdamW step, which moves all other
// tensors. It has the mistake that the environment variable ZP_KERNEL names at load.

#define zeroproof_get_plugin of_the_example
#include "verification/examples/plugin_cpp/whole_step.cpp"  // NOLINT(bugprone-suspicious-include): as it is
#undef zeroproof_get_plugin

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

bool mistake(const char* name) {
  static const char* const chosen = std::getenv("ZP_KERNEL");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

double real(const zeroproof_call* call, const char* name) {
  return zeroproof_find_setting(call, name)->value.real;
}

/// X Y' of X [m, k] and Y [n, k] (R27); all factors are rounded already.
std::vector<float> product(const std::vector<float>& x, const std::vector<float>& y, int64_t m,
                           int64_t n, int64_t k) {
  std::vector<float> result;
  for (int64_t at = 0; at < m * n; ++at) {
    const float *left = &x[at / n * k], *right = &y[at % n * k];
    float s[8] = {};
    for (int64_t b = 0; b < 8; ++b)
      for (int64_t q = k * b / 8; q < k * (b + 1) / 8; ++q)
        s[b] = std::fma(left[q], right[q], s[b]);
    result.push_back(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
  }
  return result;
}

std::vector<float> transposed(const std::vector<float>& x, int64_t rows, int64_t columns) {
  std::vector<float> result;
  for (int64_t at = 0; at < rows * columns; ++at)
    result.push_back(x[at % rows * columns + at / rows]);
  return result;
}

void orthogonalise(const zeroproof_call* call, int64_t rows, int64_t columns,
                   std::vector<float>& x) {
  const auto choice = [&](const char* name) { return zeroproof_integer(call, name, -1); };
  const int64_t form = choice("muon.form"), factors = choice("muon.factors");
  const auto round = [&](float value) {
    return factors == 0 ? std::bit_cast<float>(uint32_t{to_bf16(value)} << 16) : value;
  };
  const auto each = [&](float value) { return form == 0 ? value : round(value); };

  ExactSum squares;
  for (float& value : x) {
    if (choice("muon.rounds_first") != 0) value = round(value);
    squares.add(static_cast<double>(value) * value);
  }
  const double norm = std::sqrt(squares.value()), eps = real(call, "muon.eps");
  const double floor = choice("muon.floor") == 0 ? std::max(norm, eps) : norm + eps;
  for (float& value : x) value = round(static_cast<float>(value / floor));
  const int64_t m = std::min(rows, columns), n = std::max(rows, columns);
  if (rows > columns) x = transposed(x, rows, columns);

  const auto* polynomial = data<float>(call, "polynomials");
  for (int64_t step = 0; step < choice("muon.steps"); ++step, polynomial += 3) {
    const float a = polynomial[0], b = polynomial[1], c = polynomial[2];
    std::vector<float> gram = product(x, x, m, m, n);
    for (float& value : gram) value = round(value);
    std::vector<float> factor = gram;
    if (form == 1)
      for (float& value : factor) value = round(c * value);
    const std::vector<float> square = product(factor, gram, m, m, m);
    for (std::size_t i = 0; i < gram.size(); ++i) {
      const float s = each(square[i]), u = each(b * gram[i]);
      gram[i] = round(u + (form == 1 ? s : each(c * s)));
    }
    const std::vector<float> moved = product(gram, transposed(x, m, n), m, n, m);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = round(each(a * x[i]) + each(moved[i]));
  }
  if (rows > columns) x = transposed(x, columns, rows);
}

float step_size(const zeroproof_call* call, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  const double longer = std::sqrt(std::max(r, c));
  const double by_scale[] = {1, std::sqrt(std::max(1.0, r / c)), longer, 0.2 * longer,
                             std::sqrt(r / c)};
  const double scale = by_scale[zeroproof_integer(call, "muon.scale", -1)];
  return static_cast<float>(real(call, "scalar.lr") * (real(call, "muon.scale_factor") * scale));
}

uint64_t owner(const zeroproof_call* call, uint64_t element) {
  const auto* shard = data<uint64_t>(call, "shards");
  while (element < shard[1] || element >= shard[1] + shard[2]) shard += 3;
  return shard[0];
}

/// The momentum of a matrix that begins there, and the direction that is orthogonalised.
void move_momentum(const zeroproof_call* call, int64_t begin, int64_t numel, float* direction) {
  const float momentum = zeroproof_real(call, "scalar.momentum", NAN),
              weight = zeroproof_real(call, "scalar.one_minus_dampening", NAN),
              inv_scale = zeroproof_real(call, "scalar.inv_scale", NAN);
  const float coef = mistake("clips_last") ? 1 : *data<float>(call, "clip_coef");
  for (int64_t i = begin; i < begin + numel; ++i) {
    const float y = weight * (data<float>(call, "grad_sum")[i] * inv_scale * coef);
    float& exp_avg = data<float>(call, "exp_avg")[i];
    exp_avg = momentum * exp_avg + y;
    const bool ahead = zeroproof_integer(call, "nesterov", -1) != 0;
    direction[i] = ahead ? y + momentum * exp_avg : exp_avg;
  }
}

/// The update of one part; elements: of it in the global numbering, row after row.
void update_part(const zeroproof_call* call, const std::vector<int64_t>& elements, int64_t rows,
                 const std::vector<float>& direction) {
  const auto columns = static_cast<int64_t>(elements.size()) / rows;
  const bool slices = mistake("slices"), owned_shape = mistake("owned_shape");
  std::vector<float> orthogonal;
  std::map<uint64_t, std::vector<std::size_t>> groups;  // all of them, or those of a rank's rows
  for (std::size_t i = 0; i < elements.size(); ++i) {
    orthogonal.push_back(direction[elements[i]]);
    const int64_t row = elements[i / columns * columns];
    groups[slices || owned_shape ? owner(call, static_cast<uint64_t>(row)) : 0].push_back(i);
  }
  if (!slices) orthogonalise(call, rows, columns, orthogonal);
  const float decay = zeroproof_real(call, "scalar.lr_weight_decay", NAN);
  const bool has_decay = zeroproof_integer(call, "scalar.has_decay", 0) != 0;
  for (const auto& [rank, group] : groups) {
    std::vector<float> own;
    for (const std::size_t i : group) own.push_back(orthogonal[i]);
    const int64_t own_rows = static_cast<int64_t>(group.size()) / columns;
    if (slices) orthogonalise(call, own_rows, columns, own);
    const float size = step_size(call, owned_shape ? own_rows : rows, columns);
    for (std::size_t i = 0; i < group.size(); ++i) {
      float& master = data<float>(call, "master")[elements[group[i]]];
      const float a =
          size * (mistake("clips_last") ? *data<float>(call, "clip_coef") * own[i] : own[i]);
      master -= has_decay ? a + decay * master : a;
      data<uint16_t>(call, "param")[elements[group[i]]] = to_bf16(master);
    }
  }
}

int32_t step_of_muon(const zeroproof_call* call) {
  const int64_t padded = zeroproof_find_operand(call, "param")->tensor.shape[0];
  std::map<const char*, std::vector<float>> before;
  for (const char* name : {"exp_avg", "exp_avg_sq", "master"})
    before[name] = {data<float>(call, name), data<float>(call, name) + padded};
  step(call);
  if (*data<uint32_t>(call, "found_inf") != 0) return 0;
  std::vector<float> direction(static_cast<std::size_t>(padded));
  const auto* part = data<uint64_t>(call, "matrix_parts");
  const int64_t parts = zeroproof_find_operand(call, "matrix_parts")->tensor.shape[0];
  for (int64_t p = 0; p < parts; ++p, part += 7) {
    const uint64_t rows = part[1], columns = part[2], period = part[4];
    const bool by_columns = part[3] != 0;
    const auto begin = static_cast<int64_t>(data<uint64_t>(call, "tensors")[4 * part[0]]);
    if (part[5] == 0) {  // the first of its matrix
      const auto numel = static_cast<int64_t>(rows * columns);
      for (const auto& [name, values] : before)
        std::copy_n(values.data() + begin, numel, data<float>(call, name) + begin);
      move_momentum(call, begin, numel, direction.data());
    }
    std::vector<int64_t> elements;
    for (uint64_t e = 0; e < rows * columns; ++e) {
      const uint64_t place = (by_columns ? e % columns : e / columns) % period;
      if (place >= part[5] && place < part[5] + part[6])
        elements.push_back(begin + static_cast<int64_t>(e));
    }
    update_part(call, elements, static_cast<int64_t>(by_columns ? rows : elements.size() / columns),
                direction);
  }
  return 0;
}

/// As the example, under the rule muon alone.
int32_t supports_muon(const zeroproof_call* call) {
  if (zeroproof_integer(call, "rule", -1) != 6) return 0;
  std::vector<zeroproof_setting> settings(call->settings, call->settings + call->num_settings);
  for (zeroproof_setting& setting : settings)
    if (std::strcmp(setting.name, "rule") == 0) setting.value.integer = 0;
  zeroproof_call as_adamw = *call;
  as_adamw.settings = settings.data();
  return supports(&as_adamw);
}

constexpr zeroproof_plugin of_muon = {ZEROPROOF_PLUGIN_ABI,
                                      sizeof(zeroproof_plugin),
                                      "muon",
                                      nullptr,
                                      0,
                                      supports_muon,
                                      step_of_muon,
                                      0,
                                      0};

}  // namespace

extern "C" __attribute__((visibility("default"))) const zeroproof_plugin* zeroproof_get_plugin(
    void);
const zeroproof_plugin* zeroproof_get_plugin(void) { return &of_muon; }
