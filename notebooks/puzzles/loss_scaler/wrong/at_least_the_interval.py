# caught: first at  step 1  phase unscale  rank 0  buffer loss_scaler | element   [0] | got 13  want 12
def loss_scaler(config, state, found_inf):
    if config.kind == "constant":
        return state
    scale, tracker, left = state
    if found_inf:
        left = max(left - 1, 0)
        if left == 0:
            scale = max(scale - config.log2_backoff, config.log2_min)
        return scale, 0, left
    tracker += 1
    if config.refill == "good_step":
        left = config.hysteresis
    if tracker >= config.growth_interval:
        tracker, left = 0, config.hysteresis
        if scale + config.log2_growth <= config.log2_max:
            scale += config.log2_growth
    return scale, tracker, left
