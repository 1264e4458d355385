#ifndef ZEROPROOF_ORACLE_H
#define ZEROPROOF_ORACLE_H
/* The numeric contract (common/CONTRACT.md) in plain C, as simple as possible: an oracle that shares no code,
   no language and no optimiser with the implementations that are compared with it. Compiled with -O0. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* R6, in the order of the contract's enumeration. */
enum oracle_rule {
  oracle_rule_adamw,
  oracle_rule_adam,
  oracle_rule_sgd,
  oracle_rule_sgd_ema,
  oracle_rule_lion,
  oracle_rule_lamb,
  oracle_rule_muon
};

/* R5. The has_ members are 1 if the value after them is present. */
typedef struct {
  int rule;
  double lr;
  float beta1;
  float beta2;
  double eps;
  double weight_decay;
  int bias_correction;
  int amsgrad;
  int maximize;
  double momentum;
  double dampening;
  int nesterov;
  int heavy_ball; /* of muon: its family */
  int has_max_norm;
  double max_norm;
  int has_clip_value;
  double clip_value;
} oracle_hyper;

/* R5, the 15 words in the order of the table. */
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
  float weight_decay;
  float lr;
  float momentum;
  float one_minus_dampening;
  uint32_t has_decay;
  uint32_t is_first;
} oracle_scalars;

/* R5. Returns 1, or 0 without writing if a value is outside its range or options are incompatible. */
int oracle_step_scalars(const oracle_hyper* hyper, int64_t t, int log2_loss_scale, int64_t divisor,
                        oracle_scalars* scalars);

/* R6, R14. Returns found_inf. */
int oracle_unscale(float inv_scale, const float* grad_sum, float* unscaled_grad, size_t numel);

/* R12. Returns 1, or 0 without writing if max_norm is not allowed. */
int oracle_clip_coef(double grad_norm, int has_max_norm, double max_norm, float* clip_coef);

/* R6. */
void oracle_clip(float clip_coef, const float* unscaled_grad, float* grad, size_t numel);
void oracle_clip_value(float clip_value, float* grad, size_t numel);

/* R6. decoupled: adamw, otherwise adam. max_exp_avg_sq is read and written with amsgrad only. */
typedef struct {
  int decoupled;
  int amsgrad;
  int maximize;
} oracle_adam_options;
void oracle_adam(const oracle_adam_options* options, const oracle_scalars* scalars,
                 const float* grad, float* master, float* exp_avg, float* exp_avg_sq,
                 float* max_exp_avg_sq, size_t numel);

/* R6. momentum_buffer is used with momentum only. */
typedef struct {
  int momentum;
  int nesterov;
  int maximize;
} oracle_sgd_options;
void oracle_sgd(const oracle_sgd_options* options, const oracle_scalars* scalars, const float* grad,
                float* master, float* momentum_buffer, size_t numel);
void oracle_sgd_ema(int maximize, const oracle_scalars* scalars, const float* grad, float* master,
                    float* exp_avg, size_t numel);
void oracle_lion(int maximize, const oracle_scalars* scalars, const float* grad, float* master,
                 float* exp_avg, size_t numel);

/* The ratio is that of the tensor. u, if it is not null, gets the update before it is scaled. */
void oracle_lamb(int maximize, const oracle_scalars* scalars, float ratio, const float* grad,
                 float* master, float* exp_avg, float* exp_avg_sq, float* u, size_t numel);
float oracle_trust_ratio(float lr, double weight_norm, double update_norm);

/* R27. product[rows, columns] of left[rows, inner] and right[columns, inner]. bf16: factors are rounded. */
void oracle_matrix_product(int bf16, size_t rows, size_t columns, size_t inner, const float* left,
                           const float* right, float* product);

/* R28. polynomials: a, b and c of every step. orthogonal may be matrix. */
enum oracle_form { oracle_form_fused, oracle_form_scaled_factor, oracle_form_scaled_product };
typedef struct {
  const double* polynomials;
  int steps;
  int form;
  int bf16;
  int adds_eps;
  double eps;
  int rounds_first;
} oracle_newton_schulz_options;
void oracle_newton_schulz(const oracle_newton_schulz_options* options, size_t rows, size_t columns,
                          const float* matrix, float* orthogonal);

/* R28. direction may be grad. */
void oracle_muon_momentum(int nesterov, int maximize, const oracle_scalars* scalars,
                          const float* grad, float* exp_avg, float* direction, size_t numel);
enum oracle_scale {
  oracle_scale_none,
  oracle_scale_original,
  oracle_scale_spectral,
  oracle_scale_match_rms_adamw,
  oracle_scale_unit_rms_norm
};
float oracle_muon_step_size(int scale, double scale_factor, float lr, int64_t rows,
                            int64_t columns);
void oracle_muon_update(const oracle_scalars* scalars, float step_size, const float* orthogonal,
                        float* master, size_t numel);

/* R8. The narrow formats as bit patterns. */
void oracle_cast_bf16(const float* source, uint16_t* target, size_t numel);
void oracle_cast_fp16(const float* source, uint16_t* target, size_t numel);
void oracle_widen_bf16(const uint16_t* source, float* target, size_t numel);
void oracle_widen_fp16(const uint16_t* source, float* target, size_t numel);
void oracle_cast_e4m3(const float* source, uint8_t* target, size_t numel);
void oracle_cast_e5m2(const float* source, uint8_t* target, size_t numel);
void oracle_widen_e4m3(const uint8_t* source, float* target, size_t numel);
void oracle_widen_e5m2(const uint8_t* source, float* target, size_t numel);
void oracle_cast_e4m3_nonfinite(const float* source, uint8_t* target, size_t numel);
void oracle_cast_e5m2_nonfinite(const float* source, uint8_t* target, size_t numel);
void oracle_cast_e8m0(const float* source, uint8_t* target, size_t numel);
void oracle_widen_e8m0(const uint8_t* source, float* target, size_t numel);

/* R15. One block of four words; the random word of one element; and the rounding that uses it (R8). */
void oracle_philox(const uint32_t* counter, const uint32_t* key, uint32_t* block);
uint32_t oracle_random_word(uint64_t seed, uint32_t stream, uint64_t t, uint64_t index);
uint16_t oracle_round_with(float value, uint32_t word);
void oracle_cast_stochastic(uint64_t seed, uint64_t t, uint64_t first_index, const float* source,
                            uint16_t* target, size_t numel);

/* R11. One node; and the whole tree over leaves[0..count-1], count >= 1, with scratch for count floats. */
void oracle_add(const float* left, const float* right, float* sum, size_t numel);
void oracle_tree(const float* const* leaves, size_t count, float* scratch, float* sum,
                 size_t numel);

/* R12, chunk1024. An exact sum: digit i has weight 2^(32 i - 1088), so that every fp64 value fits. */
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
/* The sum rounded once, without a root: the last step of the form `one`. */
double oracle_norm_value(const oracle_sum* sum);
/* All of the above for whole tensors. */
double oracle_norm(const float* const* tensors, const size_t* numels, size_t count);

/* R12, exact and one. A number in bytes: byte i has weight 2^(8 i - 352). */
enum { oracle_bytes = 96 };
typedef struct {
  unsigned char byte[oracle_bytes];
  uint64_t nan_count;
  uint64_t inf_count;
} oracle_exact;

void oracle_exact_clear(oracle_exact* sum);
void oracle_exact_add_squares(oracle_exact* sum, const float* grad, size_t numel);
void oracle_exact_add_magnitudes(oracle_exact* sum, const float* grad, size_t numel);
void oracle_exact_limbs(const oracle_exact* sum, uint64_t* limbs);
double oracle_exact_value(const oracle_exact* sum); /* form one */
double oracle_exact_norm(const oracle_exact* sum);  /* form exact */

/* R12, inf. */
uint32_t oracle_max_bits(const float* grad, size_t numel, uint32_t amax);
double oracle_max_finish(uint32_t amax);

/* R14, with oracle_max_bits: infinities and NaN; zeros of either sign. */
uint64_t oracle_count_nonfinite(const float* grad, size_t numel);
uint64_t oracle_count_zeros(const float* grad, size_t numel);

#ifdef __cplusplus
}
#endif
#endif
