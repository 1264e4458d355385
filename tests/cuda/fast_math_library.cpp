// A library linked with -Ofast, so that the compiler's start-up code enables flush-to-zero and
// denormals-are-zero in every process that loads it. Used by fast_math_check.cpp only.

extern "C" __attribute__((visibility("default"))) float zp_half_of(float value);
extern "C" float zp_half_of(float value) { return value * 0.5F; }
