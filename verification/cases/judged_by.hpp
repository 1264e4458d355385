#pragma once

#include <cstdint>
#include <string>

namespace zeroproof::verification {

/// Results of a candidate that may use any legal order, by the statement that judged each of them.
struct JudgedBy {
  std::int64_t bits = 0;     ///< equal to the reference's
  std::int64_t bound = 0;    ///< a bound on its error
  std::int64_t classes = 0;  ///< NaN, an infinity, zero or a number, where no bound applies
  std::int64_t nothing = 0;  ///< every class is legal
  std::int64_t powers = 0;   ///< a bound or class, but only with powers of beta in fp32

  void add(const JudgedBy& other) {
    bits += other.bits;
    bound += other.bound;
    classes += other.classes;
    nothing += other.nothing;
    powers += other.powers;
  }
  std::int64_t total() const { return bits + bound + classes + nothing + powers; }
  /// True if more than 1 % of the results were not judged at all.
  bool too_few() const { return 100 * nothing > total(); }
};

/// "4,000 by bits, 1,000 by bound, 20 by class, 0 not at all", and "30 by powers of beta in fp32" after the bound if
/// there are some (report/judged_by.cpp)
std::string to_string(const JudgedBy& judged);

}  // namespace zeroproof::verification
