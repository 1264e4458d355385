#include "verification/ops/repetition.hpp"

#include <algorithm>
#include <cstring>

#include "verification/compare/compare.hpp"
#include "verification/ops/failed_call.hpp"

namespace zeroproof::verification {
namespace {

/// Number of earlier calls kept for comparison.
constexpr std::size_t kept_calls = 4;

/// Neither zero nor infinite nor NaN; of an integer: not zero.
bool is_informative(const TensorView& view, std::int64_t i) {
  const std::uint64_t bits = element_bits(view, i);
  if (view.dtype == DType::u32 || view.dtype == DType::u64) return bits != 0;
  const std::uint64_t magnitude = bits & ~(1ULL << (8 * num_bytes(view.dtype) - 1));
  if (magnitude == 0 || is_nan_bits(view.dtype, magnitude)) return false;
  return !is_nan_bits(view.dtype, magnitude + 1);  // the neighbour of infinity is NaN
}

std::int64_t informative_in(const TensorView& view) {
  std::int64_t informative = 0;
  for (std::int64_t i = 0; i < view.numel; ++i) informative += is_informative(view, i) ? 1 : 0;
  return informative;
}

bool same_bytes(const TensorView& a, const TensorView& b) {
  return a.numel == 0 || std::memcmp(a.data, b.data, static_cast<std::size_t>(a.num_bytes())) == 0;
}

std::vector<std::byte> bytes_of(const TensorView& view) {
  const auto* from = static_cast<const std::byte*>(view.data);
  return view.numel == 0 ? std::vector<std::byte>()
                         : std::vector<std::byte>(from, from + view.num_bytes());
}

TensorView front(const TensorView& view, std::int64_t numel) {
  return {view.data, view.dtype, numel};
}

TensorView as_view(const std::vector<std::byte>& bytes, DType dtype, std::int64_t numel) {
  return {const_cast<std::byte*>(bytes.data()), dtype, numel};
}

std::int64_t unequal(const TensorView& a, const TensorView& b) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.numel; ++i)
    count += element_bits(a, i) != element_bits(b, i) ? 1 : 0;
  return count;
}

}  // namespace

/// The outputs that the call changed.
std::vector<std::size_t> Repetition::written(const OpCall& pristine,
                                             const OpCall& candidate) const {
  std::vector<std::size_t> outputs;
  for (std::size_t k = 0; k < op_->operands.size(); ++k) {
    if (op_->operands[k].access == Access::in) continue;
    if (!same_bytes(pristine.view(k), candidate.view(k))) outputs.push_back(k);
  }
  return outputs;
}

Repetition::Summary Repetition::summary(const std::vector<std::size_t>& outputs,
                                        const OpCall& pristine, const OpCall& reference,
                                        const OpCall& candidate) const {
  Summary result;
  for (std::size_t k = 0; k < op_->operands.size(); ++k) {
    const TensorView view = pristine.view(k);
    if (op_->operands[k].access != Access::out && view.numel > 0)
      result.inputs.push_back(raw_digest(view.data, view.num_bytes()));
  }
  Hasher wanted, got;
  for (const std::size_t k : outputs) {
    wanted.add(reference.view(k));
    got.add(static_cast<std::uint64_t>(k));
    got.add(candidate.view(k));
  }
  result.wanted = wanted.digest();
  result.got = got.digest();
  return result;
}

Repetition::SecondTime Repetition::against_first_seed(const Summary& now, const CallShape& shape) {
  const Point point = {shape.numel, shape.offset, shape.variant, shape.num_threads};
  const auto [place, is_new] = first_.try_emplace(point, shape.seed, now);
  const auto& [seed, then] = place->second;
  if (is_new || seed == shape.seed || now.wanted == then.wanted) return SecondTime::tells_nothing;
  if (!std::ranges::equal(now.inputs, then.inputs, std::not_equal_to<>()))
    return SecondTime::tells_nothing;
  return now.got == then.got ? SecondTime::repeated : SecondTime::other;
}

/// The front of this call, as long as the other one was: true if it has the same results although
/// most of each input differs, and they are wrong here.
bool Repetition::repeats(const Kept& before, const std::vector<std::size_t>& outputs,
                         const OpCall& pristine, const OpCall& reference,
                         const OpCall& candidate) const {
  const auto common = [&](const Bytes& then, const TensorView& now) {
    return std::min(static_cast<std::int64_t>(then.size()) / num_bytes(now.dtype), now.numel);
  };
  std::int64_t informative = 0, elements = 0, wrong = 0;
  bool as_wanted = true, as_got = true;
  for (const std::size_t k : outputs) {
    const TensorView now = candidate.view(k);
    const std::int64_t n = common(before.got[k], now);
    const TensorView here = front(now, n);
    as_wanted = as_wanted && same_bytes(here, as_view(before.wanted[k], now.dtype, n));
    as_got = as_got && same_bytes(here, as_view(before.got[k], now.dtype, n));
    if (!as_wanted && !as_got) return false;
    informative += informative_in(here);
    elements += n;
    wrong += unequal(here, front(reference.view(k), n));
  }
  if (informative < enough || 2 * wrong < elements) return false;
  for (std::size_t k = 0; k < op_->operands.size(); ++k) {
    if (op_->operands[k].access == Access::out) continue;
    const TensorView now = pristine.view(k);
    const std::int64_t n = common(before.inputs[k], now);
    if (n > 0 && 2 * unequal(front(now, n), as_view(before.inputs[k], now.dtype, n)) < n)
      return false;
  }
  return true;
}

void Repetition::keep(const OpCall& pristine, const OpCall& reference, const OpCall& candidate) {
  Kept kept;
  for (std::size_t k = 0; k < op_->operands.size(); ++k) {
    const Access access = op_->operands[k].access;
    kept.inputs.push_back(access == Access::out ? Bytes() : bytes_of(pristine.view(k)));
    kept.wanted.push_back(access == Access::in ? Bytes() : bytes_of(reference.view(k)));
    kept.got.push_back(access == Access::in ? Bytes() : bytes_of(candidate.view(k)));
  }
  before_.push_back(std::move(kept));
  if (before_.size() > kept_calls) before_.erase(before_.begin());
}

std::string Repetition::look(const OpCall& pristine, const OpCall& reference,
                             const OpCall& candidate) {
  const std::vector<std::size_t> outputs = written(pristine, candidate);
  std::int64_t informative = 0, elements = 0, wrong = 0;
  for (const std::size_t k : outputs) {
    const TensorView view = candidate.view(k);
    informative += informative_in(view);
    elements += view.numel;
    wrong += unequal(view, reference.view(k));
  }
  const Summary now = summary(outputs, pristine, reference, candidate);
  const SecondTime second = against_first_seed(now, pristine.shape());
  const std::string call = " (" + shape_text(*op_, pristine.shape()) + ")";
  if (informative >= enough && second == SecondTime::repeated) {
    return "the results repeat, bit for bit, those of the same call for other inputs: they were "
           "not computed "
           "from "
           "these" +
           call;
  }
  if (elements > 0 && elements < enough && second != SecondTime::tells_nothing) {
    ++short_calls_;
    short_repeated_ += second == SecondTime::repeated && informative == elements ? 1 : 0;
  }
  const bool recurs =
      pristine.shape().fill == Fill::patterns;  // results may be there too, in a wrong place
  const bool stale = wrong > 0 && !recurs && std::ranges::any_of(before_, [&](const Kept& before) {
                       return repeats(before, outputs, pristine, reference, candidate);
                     });
  keep(pristine, reference, candidate);
  if (!stale) return {};
  return "the results are, bit for bit, those of a call before: they were not computed from these "
         "inputs" +
         call;
}

std::string Repetition::of_single_results() const {
  if (short_calls_ < enough_short_calls || short_repeated_ < short_calls_) return {};
  return "the results of all " + std::to_string(short_calls_) +
         " calls repeat, bit for bit, those for other inputs: they were not computed from these";
}

}  // namespace zeroproof::verification
