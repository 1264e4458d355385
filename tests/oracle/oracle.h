#ifndef ZEROPROOF_ORACLE_H
#define ZEROPROOF_ORACLE_H
/* The numeric contract (common/CONTRACT.md) written a third time, in plain C and as plainly as possible: a
   witness that shares no code, no language and no optimiser with the two implementations it judges. Compiled
   with -O0. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* R5. has_max_norm says whether max_norm is present at all. */
typedef struct {
  double lr;
  float beta1;
  float beta2;
  double eps;
  double weight_decay;
  int bias_correction;
  int has_max_norm;
  double max_norm;
} oracle_hyper;

/* R5, the ten words in the order of the table. */
typedef struct {
  float inv_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float sqrt_bias_correction2;
  float step_size;
  float eps;
  float lr_weight_decay;
  uint32_t has_decay;
} oracle_scalars;

/* R5. Returns 1, or 0 without writing if a range is left. */
int oracle_step_scalars(const oracle_hyper* hyper, int64_t t, int log2_loss_scale, int64_t divisor,
                        oracle_scalars* scalars);

/* R6, R14. Returns found_inf. */
int oracle_unscale(float inv_scale, const float* grad_sum, float* unscaled_grad, size_t numel);

/* R12. Returns 1, or 0 without writing if max_norm is not allowed. */
int oracle_clip_coef(double grad_norm, int has_max_norm, double max_norm, float* clip_coef);

/* R6. */
void oracle_clip(float clip_coef, const float* unscaled_grad, float* grad, size_t numel);
void oracle_adamw(const oracle_scalars* scalars, const float* grad, float* master, float* exp_avg,
                  float* exp_avg_sq, size_t numel);

/* R8. The 16-bit formats as bit patterns. */
void oracle_cast_bf16(const float* source, uint16_t* target, size_t numel);
void oracle_cast_fp16(const float* source, uint16_t* target, size_t numel);
void oracle_widen_bf16(const uint16_t* source, float* target, size_t numel);
void oracle_widen_fp16(const uint16_t* source, float* target, size_t numel);

/* R11. One node; and the whole tree over leaves[0..count-1], count >= 1, with scratch for count floats. */
void oracle_add(const float* left, const float* right, float* sum, size_t numel);
void oracle_tree(const float* const* leaves, size_t count, float* scratch, float* sum, size_t numel);

/* R12. An exact sum: digit i has weight 2^(32 i - 1088), so that every fp64 value has a place in it. */
enum { oracle_digits = 68, oracle_limbs = 21 };
typedef struct {
  uint32_t digit[oracle_digits];
  uint64_t nan_count;
  uint64_t inf_count;
} oracle_sum;

void oracle_norm_clear(oracle_sum* sum);
void oracle_norm_add(oracle_sum* sum, const float* tensor, size_t numel);
/* Adds limbs of R12 (weight 2^(32 i - 352)), normalised or not. */
void oracle_norm_add_limbs(oracle_sum* sum, const uint64_t* limbs);
/* The normalised limbs of R12: every limb but the last below 2^32. */
void oracle_norm_limbs(const oracle_sum* sum, uint64_t* limbs);
double oracle_norm_finish(const oracle_sum* sum);
/* All of the above for whole tensors. */
double oracle_norm(const float* const* tensors, const size_t* numels, size_t count);

#ifdef __cplusplus
}
#endif
#endif
