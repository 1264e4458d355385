"""A callable that does not compute: the judge detects it for any numbers."""

import ctypes
import threading
import unittest

import numpy as np
from support import F, adamw, judged

import zproof


class Cheats(unittest.TestCase):
    def cheat(self, fn, *parts, op="adamw", status="tampered", **words):
        verdict = judged(fn, op, **words)
        self.assertEqual(verdict.status, status, verdict.text)
        self.assertEqual(verdict.exit_code, 1)
        for part in parts:
            self.assertIn(part, verdict.text)

    def test_editing_inputs(self):
        def edits(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            ctypes.memset(grad.ctypes.data, 0, grad.nbytes)

        self.cheat(edits, "the input grad was edited")

    def test_writing_beside_outputs(self):
        def beside(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            ctypes.memset(master.ctypes.data + master.nbytes, 0, 4)

        def before(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            ctypes.memset(exp_avg.ctypes.data - 1, 0, 1)

        self.cheat(beside, "master was written outside its bounds", status="fail")
        self.cheat(before, "exp_avg was written outside its bounds", status="fail")

    def test_asking_the_reference(self):
        def asks(grad, master, exp_avg, exp_avg_sq, **s):
            zproof.reference.adamw(grad, master, exp_avg, exp_avg_sq, t=s["t"], inplace=True)

        def asks_elsewhere(grad, master, exp_avg, exp_avg_sq, **s):
            thread = threading.Thread(target=lambda: asks(grad, master, exp_avg, exp_avg_sq, **s))
            thread.start()
            thread.join()

        def steps(grad, master, exp_avg, exp_avg_sq, *, t, lr, **s):
            zproof.step({"p": master}, {"p": grad}, state={"exp_avg": {"p": exp_avg}, "exp_avg_sq": {"p": exp_avg_sq},
                                                         "applied_steps": t - 1}, dtype="fp32", lr=lr)

        self.cheat(steps, "it called zproof.reference instead of computing")
        self.cheat(asks, "it called zproof.reference instead of computing")
        self.cheat(asks_elsewhere, "it called zproof.reference instead of computing")
        zproof.reference.grad_norm(np.ones(3, F))  # between two judgements it is permitted
        self.assertTrue(judged(adamw))

    def test_working_after_it_returned(self):
        next_call = threading.Event()
        started = []

        def late(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            if started:
                next_call.set()
                started[0].join()
            elif master.size == 1024:
                started.append(threading.Thread(target=lambda: (next_call.wait(), master.fill(0))))
                started[0].start()

        self.cheat(late, "master was written after the call was over")

    def test_working_after_the_last_call(self):
        calls = []

        def at_the_end(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            calls.append(None)
            if len(calls) == last:
                threading.Timer(0.005, lambda: master.fill(0)).start()

        last = 0
        self.assertTrue(judged(at_the_end))
        last = len(calls)
        reasons = []
        for _ in range(10):  # a busy machine may be late for the few milliseconds that are waited, or still in the call
            calls.clear()
            reasons += [one["reason"] for one in judged(at_the_end).results if one["status"] != "pass"]
            if "written after the call" in "".join(reasons):
                break
        self.assertIn("master was written after the call was over", "".join(reasons))

    def test_knowing_results_by_heart(self):
        known = {}

        def record(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            key = (grad.size, scalars.step_size, grad.ctypes.data % 64)
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            known.setdefault(key, (master.copy(), exp_avg.copy(), exp_avg_sq.copy()))

        def replays(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            if grad.size > 4:  # too few numbers for a conclusion
                master[...], exp_avg[...], exp_avg_sq[...] = known[(grad.size, scalars.step_size, grad.ctypes.data % 64)]
            else:
                adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)

        def remembers(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            key = (grad.tobytes(), master.tobytes(), scalars.step_size)
            master[...], exp_avg[...], exp_avg_sq[...] = known[key] if key in known else (master, exp_avg, exp_avg_sq)

        def record_all(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            key = (grad.tobytes(), master.tobytes(), scalars.step_size)
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            known[key] = (master.copy(), exp_avg.copy(), exp_avg_sq.copy())

        self.assertTrue(judged(record))
        self.cheat(replays)
        self.assertTrue(judged(record_all))
        self.cheat(remembers, status="fail")  # it has all results of an earlier run

    def test_stale_arrays_are_memory_of_their_own(self):
        kept = []

        def keeps(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            kept.append(master)
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)

        self.assertTrue(judged(keeps))
        self.assertTrue(all(np.isfinite(one).all() for one in kept))  # the memory is still theirs

    def test_leaving_another_floating_point_environment(self):
        libm = ctypes.CDLL("libm.so.6")

        def upward(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            libm.fesetround(0x800)

        self.cheat(upward, "it left the thread so that", status="fail")
        self.assertTrue(judged(adamw))  # the settings were restored

    def test_constants(self):
        def constant(value):
            def fill(grad, master, exp_avg, exp_avg_sq):
                for array in (master, exp_avg, exp_avg_sq):
                    array.fill(value)

            return fill

        self.cheat(constant(0), "they hold 0", status="fail")  # as after ordinary mistakes
        self.cheat(constant(0.25))

    def test_results_of_the_call_before(self):
        before = {}

        def stale(source, target):
            result = before.get(source.size, source.astype(np.float16))
            before[source.size] = source.astype(np.float16)
            target[...] = result

        self.cheat(stale, op="cast_to_fp16")


if __name__ == "__main__":
    unittest.main()
