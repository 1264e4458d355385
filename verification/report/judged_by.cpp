#include "verification/cases/judged_by.hpp"

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {

std::string to_string(const JudgedBy& judged) {
  return fmt::format("{} by bits, {} by bound, {} by class, {} not at all", grouped(judged.bits),
                     grouped(judged.bound), grouped(judged.classes), grouped(judged.nothing));
}

}  // namespace zeroproof::verification
