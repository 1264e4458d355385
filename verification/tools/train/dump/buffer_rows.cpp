#include "verification/tools/train/dump/buffer_rows.hpp"

#include <algorithm>

#include "verification/compare/tensors/set_report.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

std::string row_name(const DumpBuffer& buffer) {
  return buffer.id == BufferId::step_scalars ? "step_scalars" : buffer.name;
}

/// Both values of an element.
std::string values(const TensorDifference& tensor) {
  const Difference& first = *tensor.bits.first;
  if (const std::optional<DType> dtype = buffer_dtype(tensor.first.dtype)) {
    return "got " + show_bits(*dtype, first.candidate_bits) + "  want " +
           show_bits(*dtype, first.reference_bits);
  }
  return fmt::format("got {}  want {}", static_cast<std::int32_t>(first.candidate_bits),
                     static_cast<std::int32_t>(first.reference_bits));  // I32, BOOL
}

std::string why_not_compared(const TensorDifference& tensor) {
  switch (tensor.match) {
    case TensorMatch::only_first:
      return "is missing";
    case TensorMatch::only_second:
      return "is not expected";
    case TensorMatch::other_dtype:
      return fmt::format("is {}, and should be {}", name(tensor.second.dtype),
                         name(tensor.first.dtype));
    default:
      return "has another shape than it should";
  }
}

}  // namespace

std::vector<BufferRow> buffer_rows(const DumpPlan& plan, const std::vector<DumpTensor>& tensors,
                                   const SetComparison& comparison) {
  std::vector<BufferRow> rows;
  std::vector<std::size_t> order;  // of the buffers, in the plan
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DumpBuffer& buffer = plan.buffers()[tensors[i].buffer];
    const std::string name = row_name(buffer);
    auto row = std::ranges::find(rows, name, &BufferRow::name);
    if (row == rows.end()) {  // a step may lack a buffer that another one has
      const auto at = std::ranges::upper_bound(order, tensors[i].buffer) - order.begin();
      order.insert(order.begin() + at, tensors[i].buffer);
      row = rows.insert(rows.begin() + at, {name, buffer.id, {}, -1});
    }
    row->totals.add(comparison.tensors[i]);
    if (!comparison.tensors[i].equal() && row->first_step < 0) row->first_step = tensors[i].step;
  }
  return rows;
}

std::string buffer_table(const std::vector<BufferRow>& rows,
                         const std::function<std::string(const BufferRow&)>& verdict) {
  std::string text = fmt::format("{:<16} {:>7} {:>14} {:>13} {:>9} {:>9}\n", "buffer", "tensors",
                                 "elements", "differing", "equal", "ulps");
  for (const BufferRow& row : rows) {
    const TensorTotals& t = row.totals;
    text += fmt::format("{:<16} {:>7} {:>14} {:>13} {:>9} {:>9}  {}\n", row.name, t.tensors,
                        grouped(t.compared), grouped(t.differing),
                        t.compared == 0 ? "-" : share(t.compared - t.differing, t.compared),
                        shown_ulps(t.ulps.largest), verdict(row));
  }
  return text;
}

std::string first_difference(const DumpPlan& plan, const std::vector<DumpTensor>& tensors,
                             const SetComparison& comparison) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorDifference& found = comparison.tensors[i];
    if (found.equal()) continue;
    const DumpBuffer& buffer = plan.buffers()[tensors[i].buffer];
    std::string text = fmt::format("first at  step {}  buffer {}", tensors[i].step, buffer.name);
    std::string place;
    if (buffer.per_parameter) {
      const TensorSlot& slot = plan.layout().tensors()[tensors[i].parameter];
      place = slot.name;
      if (found.bits.first) {
        place += buffer.has_elements()
                     ? plan.layout().coordinates(slot.begin + found.bits.first->index)
                     : fmt::format(" [{}]", found.bits.first->index);
      }
    } else if (found.bits.first && found.bits.compared > 1) {
      place = fmt::format("[{}]", found.bits.first->index);
    }
    if (!place.empty()) text += "  " + place;
    if (found.match != TensorMatch::compared) return text + ": " + why_not_compared(found) + "\n";
    text += fmt::format("\nvalues    {}\nextent    {} of {} elements of this tensor differ\n",
                        values(found), grouped(found.bits.differing), grouped(found.bits.compared));
    return text;
  }
  return "";
}

}  // namespace zeroproof::verification
