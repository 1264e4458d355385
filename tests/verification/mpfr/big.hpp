#pragma once
// Numbers of GNU MPFR: of 256 bits, and of 24 bits with the exponents of fp32.

#include <mpfr.h>

#include <utility>

namespace zeroproof::tests {

/// 256 bits and unlimited exponents: practically exact for the compared values.
class Big {
 public:
  Big() { mpfr_init2(value_, 256), mpfr_set_zero(value_, 1); }
  Big(double x) : Big() {
    mpfr_set_d(value_, x, MPFR_RNDN);
  }  // implicit, so that tests can pass numbers
  explicit Big(long double x) : Big() { mpfr_set_ld(value_, x, MPFR_RNDN); }
  Big(const Big& other) : Big() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Big& operator=(const Big& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Big() { mpfr_clear(value_); }

  friend Big operator+(const Big& a, const Big& b) { return made(mpfr_add, a, b); }
  friend Big operator-(const Big& a, const Big& b) { return made(mpfr_sub, a, b); }
  friend Big operator*(const Big& a, const Big& b) { return made(mpfr_mul, a, b); }
  friend Big operator/(const Big& a, const Big& b) { return made(mpfr_div, a, b); }
  friend Big pow(const Big& a, const Big& b) { return made(mpfr_pow, a, b); }
  friend Big sqrt(const Big& a) {
    Big r;
    mpfr_sqrt(r.value_, a.value_, MPFR_RNDN);
    return r;
  }
  friend Big abs(Big a) {
    mpfr_abs(a.value_, a.value_, MPFR_RNDN);
    return a;
  }
  friend bool operator<(const Big& a, const Big& b) { return mpfr_less_p(a.value_, b.value_) != 0; }
  friend bool operator<=(const Big& a, const Big& b) {
    return mpfr_lessequal_p(a.value_, b.value_) != 0;
  }
  friend bool operator==(const Big& a, const Big& b) {
    return mpfr_equal_p(a.value_, b.value_) != 0;
  }

  double number() const { return mpfr_get_d(value_, MPFR_RNDN); }

 private:
  template <class F>
  static Big made(F* function, const Big& a, const Big& b) {
    Big r;
    function(r.value_, a.value_, b.value_, MPFR_RNDN);
    return r;
  }

  mpfr_t value_;
};

/// fp32: every operation is MPFR's with 24 bits, rounded once, subnormals included.
class Rounded {
 public:
  Rounded() : Rounded(0.0F) {}
  Rounded(float x) { mpfr_init2(value_, 24), mpfr_set_flt(value_, x, MPFR_RNDN); }  // as above
  Rounded(const Rounded& other) : Rounded() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Rounded& operator=(const Rounded& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Rounded() { mpfr_clear(value_); }

  friend Rounded operator+(const Rounded& a, const Rounded& b) {
    return made(mpfr_add, a.value_, b.value_);
  }
  friend Rounded operator-(const Rounded& a, const Rounded& b) {
    return made(mpfr_sub, a.value_, b.value_);
  }
  friend Rounded operator*(const Rounded& a, const Rounded& b) {
    return made(mpfr_mul, a.value_, b.value_);
  }
  friend Rounded operator/(const Rounded& a, const Rounded& b) {
    return made(mpfr_div, a.value_, b.value_);
  }
  friend Rounded sqrt(const Rounded& a) { return made(mpfr_sqrt, a.value_); }
  friend bool operator<(const Rounded& a, const Rounded& b) {
    return mpfr_less_p(a.value_, b.value_) != 0;
  }
  friend bool operator<=(const Rounded& a, const Rounded& b) {
    return mpfr_lessequal_p(a.value_, b.value_) != 0;
  }

  float number() const { return mpfr_get_flt(value_, MPFR_RNDN); }

 private:
  template <class F, class... Args>
  static Rounded made(F* function, Args&&... args) {
    const mpfr_exp_t least = mpfr_get_emin(), most = mpfr_get_emax();
    mpfr_set_emin(-148);  // of fp32, with subnormals; a significand is in [1/2, 1)
    mpfr_set_emax(128);
    Rounded r;
    const int way = function(r.value_, std::forward<Args>(args)..., MPFR_RNDN);
    mpfr_subnormalize(r.value_, way, MPFR_RNDN);
    mpfr_set_emin(least);
    mpfr_set_emax(most);
    return r;
  }

  mpfr_t value_;
};

}  // namespace zeroproof::tests
