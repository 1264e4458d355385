#include "reference/norm_form.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

void accumulate(NormForm form, Span<const float> grad, PartialNorm& norm) {
  switch (form) {
    case NormForm::chunk1024:
      return grad_norm_accumulate({}, grad, norm.limbs);
    case NormForm::exact:
      return grad_norm_exact_accumulate({}, grad, norm.limbs);
    case NormForm::one:
      return grad_abs_accumulate({}, grad, norm.limbs);
    case NormForm::inf:
      return grad_max_accumulate({}, grad, norm.amax);
  }
}

double finish(NormForm form, const PartialNorm& norm) {
  if (form == NormForm::inf) return grad_max_finish(norm.amax);
  if (form == NormForm::one) return grad_abs_finish(norm.limbs);
  return grad_norm_finish(norm.limbs);
}

void PartialNorms::accumulate(NormForm form, std::size_t group, Span<const float> grad) {
  PartialNorm sum = of(group);
  reference::accumulate(form, grad, sum);
  limbs[group] = sum.limbs;
  amax[group] = sum.amax;
}

void PartialNorms::normalise() {
  for (NormLimbs& of_group : limbs) grad_norm_normalise(of_group);
}

std::vector<double> PartialNorms::finish(NormForm form) const {
  std::vector<double> norms;
  for (std::size_t group = 0; group < limbs.size(); ++group)
    norms.push_back(reference::finish(form, of(group)));
  return norms;
}

}  // namespace zeroproof::reference
