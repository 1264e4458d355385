#include "verification/cases/judged_by.hpp"

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {

std::string to_string(const JudgedBy& judged) {
  const std::string powers =
      judged.powers > 0 ? grouped(judged.powers) + " by powers of beta in fp32, " : "";
  return fmt::format("{} by bits, {} by bound, {}{} by class, {} not at all", grouped(judged.bits),
                     grouped(judged.bound), powers, grouped(judged.classes),
                     grouped(judged.nothing));
}

}  // namespace zeroproof::verification
