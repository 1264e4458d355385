// A library as a careless neighbour would bring it: linked with -Ofast, so that the compiler's start-up code switches
// on flush-to-zero and denormals-are-zero for whoever loads it. Used by fast_math_check.cpp only.

extern "C" __attribute__((visibility("default"))) float zp_half_of(float value);
extern "C" float zp_half_of(float value) { return value * 0.5F; }
