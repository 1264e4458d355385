# caught: first at  step 1  phase update  rank 0  buffer master | a matrix cut between two rows | 2 cases before
def muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm):
    y = s.one_minus_momentum * grad
    exp_avg = s.momentum * exp_avg + y
    direction = y + s.momentum * exp_avg
    master, begin, first = master.copy(), owns[rank][0], 0
    for rows, columns in shapes:
        own = slice(max(first - begin, 0), max(first + rows * columns - begin, 0))
        part = direction[own].reshape(-1, columns)
        a = s.step_size(max(len(part), 1), columns) * newton_schulz(part).ravel()
        master[own] = master[own] - (a + s.lr_weight_decay * master[own])
        first += rows * columns
    return exp_avg, master
