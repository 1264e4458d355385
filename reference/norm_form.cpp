#include "reference/norm_form.hpp"

#include "reference/grad_norm.hpp"

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

}  // namespace zeroproof::reference
