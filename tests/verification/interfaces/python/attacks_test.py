"""python -m zproof verify: a callable that attacks the judge gets no passing exit code, and no text on standard output."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

from zproof import _zproof

HERE = Path(__file__).resolve().parent

ATTACKS = """
import ctypes, json, os, pickle, resource, signal, stat, struct, subprocess, sys, termios, threading, time, types
sys.path.append({here!r})
from support import adamw

calls = []
PARENT = os.getppid()  # the judge


def wrong(grad, master, exp_avg, exp_avg_sq):
    for array in (master, exp_avg, exp_avg_sq):
        array.fill(0)


def pipes():
    '''Descriptors of pipes and sockets in this process, standard ones excluded.'''
    for name in os.listdir('/proc/self/fd'):
        try:
            mode = os.fstat(int(name)).st_mode
        except OSError:
            continue
        if int(name) > 2 and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            yield int(name)


def say(data):
    for one in pipes():
        try:
            os.write(one, data)
        except OSError:
            pass


def exit_code_in_pipe(grad, master, exp_avg, exp_avg_sq):
    say(b'0')
    print('1 pass, 0 fail', flush=True)
    os._exit(0)


def patched_report(grad, master, exp_avg, exp_avg_sq):
    from zproof import _zproof
    from zproof.judge import Verdict
    _zproof.Report.exit_code = lambda *a: 0
    Verdict.passed = Verdict.exit_code = property(lambda self: 0)
    wrong(grad, master, exp_avg, exp_avg_sq)


def patched_exit(grad, master, exp_avg, exp_avg_sq):
    sys.exit = lambda code: os._exit(0)
    wrong(grad, master, exp_avg, exp_avg_sq)


def garbage_in_pipe(grad, master, exp_avg, exp_avg_sq):
    say(b'garbage of the callable')
    wrong(grad, master, exp_avg, exp_avg_sq)


def endless_garbage(grad, master, exp_avg, exp_avg_sq):
    while True:
        say(b'1' * 4096)


def half_an_answer(grad, master, exp_avg, exp_avg_sq):
    if master.size > 0:
        say(HEADER.pack(number(), RETURNED, 0) + b'1234')
        os._exit(0)


HEADER = struct.Struct('<QBI')  # of an answer: number, kind, length of its text
RETURNED = 0


def number():
    '''That of the call in progress.'''
    frame = sys._getframe()
    while frame and 'number' not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals['number'] if frame else 1


def forged_answer(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    say(HEADER.pack(number(), RETURNED, 0) + master.tobytes() + exp_avg.tobytes() + exp_avg_sq.tobytes())


def next_answer(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    say(HEADER.pack(number() + 1, RETURNED, 0) + master.tobytes() + exp_avg.tobytes() + exp_avg_sq.tobytes())


def repeated_answer(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    if master.size == 16:
        say(HEADER.pack(number() - 1, RETURNED, 0) + master.tobytes() + exp_avg.tobytes() + exp_avg_sq.tobytes())


def other_number(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    say(HEADER.pack(number() + 7, RETURNED, 0) + master.tobytes() + exp_avg.tobytes() + exp_avg_sq.tobytes())
    time.sleep(60)  # its own answer never follows


def late_answer(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    threading.Timer(0.005, say, [HEADER.pack(number(), RETURNED, 0)]).start()


def other_status(grad, master, exp_avg, exp_avg_sq):
    say(HEADER.pack(number(), 1, 4) + b'pass')
    os._exit(0)


def leaves_in_the_middle(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    calls.append(None)
    if len(calls) == 10:
        os._exit(0)


def closes_pipe(grad, master, exp_avg, exp_avg_sq):
    for one in pipes():
        os.close(one)
    time.sleep(60)


def attempt(attack):
    try:
        attack()
    except OSError as error:
        raise RuntimeError('refused: ' + type(error).__name__) from None


def kills_judge(grad):
    attempt(lambda: os.kill(PARENT, signal.SIGKILL))


def stops_judge(grad):
    attempt(lambda: os.kill(PARENT, signal.SIGSTOP))


def opens_memory(grad):
    attempt(lambda: open(f'/proc/{{PARENT}}/mem', 'r+b').close())


def opens_output(grad):
    attempt(lambda: open(f'/proc/{{PARENT}}/fd/1', 'w').close())


def opens_kernel_files(grad):
    names = ('oom_score_adj', 'oom_adj', 'autogroup', 'coredump_filter', 'clear_refs', 'timerslack_ns', 'comm', 'sched')
    paths = [f'/proc/{{PARENT}}/{{name}}' for name in names] + ['/proc/sysrq-trigger', '/sys/kernel/profiling',
             '/sys/fs/cgroup/cgroup.procs', '/sys/fs/cgroup/unified/cgroup.procs', '/proc/self/oom_score_adj']
    opened = [path for path in paths if not fails(lambda: open(path, 'w').close(), OSError)]
    raise RuntimeError(f"opened {{opened}}, score {{open('/proc/self/oom_score_adj').read()}}")


def opens_terminal(grad):
    attempt(lambda: open(os.environ['ZP_TEST_TERMINAL'], 'w').close())


def kills_groups(grad):
    fails_for = [pid for pid in (-1, -os.getpgid(PARENT)) if fails(lambda: os.kill(pid, 0))]
    raise RuntimeError(f'refused: {{len(fails_for)}}')


def owns_signal(grad):
    import fcntl, socket
    one, _ = socket.socketpair()
    attempt(lambda: fcntl.fcntl(one, fcntl.F_SETOWN, PARENT))


def limits_judge(grad):
    attempt(lambda: resource.prlimit(PARENT, resource.RLIMIT_CPU, (0, 0)))


def slows_judge(grad):
    os.sched_setaffinity(0, {{0}})
    os.nice(0)
    refused = [attack for attack in (lambda: os.sched_setaffinity(PARENT, {{0}}),
                                     lambda: os.setpriority(os.PRIO_PROCESS, PARENT, 19),
                                     lambda: os.sched_setscheduler(PARENT, os.SCHED_IDLE, os.sched_param(0)))
               if fails(attack)]
    raise RuntimeError(f'refused: {{len(refused)}}')


def fails(attack, kind=PermissionError):
    try:
        attack()
    except kind:
        return True
    return False


def watches_judge(grad):
    libc = ctypes.CDLL(None, use_errno=True)
    codes = []
    for number in (298, 321, 300):  # perf_event_open, bpf, fanotify_init
        ctypes.set_errno(0)
        libc.syscall(number, 0, 0, 0, -1, 0)
        codes.append(ctypes.get_errno())
    raise RuntimeError(f'errors {{codes}}')


def traces_judge(grad):
    libc = ctypes.CDLL(None, use_errno=True)
    judge = os.pidfd_open(PARENT)
    codes = []
    for words in ((101, 0x4206, PARENT), (310, PARENT), (311, PARENT), (438, judge, 1), (424, judge), (440, judge, 0, 0, 21),
                  (200, PARENT), (279, PARENT), (256, PARENT), (157, 62, 0, PARENT), (250, 18)):
        ctypes.set_errno(0)
        libc.syscall(*words, *(6 - len(words)) * [0])
        codes.append(ctypes.get_errno())
    raise RuntimeError(f'errors {{codes}}')


def stops_terminal(grad):
    termios.tcflow(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY), termios.TCOOFF)


def output_is(grad):
    raise RuntimeError(f'{{stat.S_ISFIFO(os.fstat(1).st_mode)}} {{stat.S_ISFIFO(os.fstat(2).st_mode)}}')


def prints(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    if not calls:
        calls.append(None)
        print('x' * 300000 + '\\x1b[2Jend \\x9b2J \\u202e\u00e9')


def outlives(grad, master, exp_avg, exp_avg_sq):
    '''A process of another session, whose parent has ended, that goes on after the verdict.'''
    if not calls:
        calls.append(None)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with open('outlives', 'w') as file:
                    file.write(str(os.getpid()))
                time.sleep(20)
                os.write(2, b'1 pass, 0 fail\\n')
            os._exit(0)
        while not os.path.exists('outlives') or not os.path.getsize('outlives'):
            time.sleep(0.01)
    wrong(grad, master, exp_avg, exp_avg_sq)


def leaves_group(grad):
    '''So that no signal to a group reaches all of its processes.'''
    group = os.getpgrp()
    if os.fork() == 0:
        os.setsid()
        os.setpgid(0, 0)
        os._exit(os.getpgrp() == group and os.getsid(0) == group)
    raise RuntimeError(f'stays: {{os.wait()[1] >> 8}}')


def leaves_open(grad, master, exp_avg, exp_avg_sq):
    '''A process that keeps connection and output open when this one has ended.'''
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
    os._exit(3)


def moves_files(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    '''No attack: as a cache of compiled kernels does.'''
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    if not calls:
        calls.append(None)
        os.mkdir('cache')
        open('kernel', 'w').close()
        os.replace('kernel', 'cache/kernel')


def from_thread_and_child(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    '''A thread computes, and a child answers from the call of 16 elements on.'''
    if master.size == 16 and not calls:
        calls.append(None)
        if os.fork() != 0:
            time.sleep(60)
    thread = threading.Thread(target=adamw, args=(grad, master, exp_avg, exp_avg_sq),
                              kwargs=dict(scalars=scalars, beta1=beta1, beta2=beta2))
    thread.start()
    thread.join()


def makes_pipes(grad, master, exp_avg, exp_avg_sq):
    if not calls:
        calls.append(None)
        os.mkfifo('report.json')
        os.symlink('report.json', 'report.xml')
    wrong(grad, master, exp_avg, exp_avg_sq)


def says_surrogates(grad):
    raise RuntimeError('half a pair: ' + chr(0xD800))


def lists_descriptors(grad):
    raise RuntimeError(f"{{len(os.listdir('/proc/self/fd'))}} descriptors, {{len(list(pipes()))}} connection")


def hides_edits(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    from zproof import _zproof

    def unguarded(self, numel, operands, settings, num_threads, text):
        named = {{name[7:]: value for name, value in settings.items() if name.startswith('scalar.')}}
        adamw(operands['grad'], operands['master'], operands['exp_avg'], operands['exp_avg_sq'],
              scalars=types.SimpleNamespace(**named), beta1=settings['beta1'], beta2=settings['beta2'])
        operands['grad'].fill(0)

    _zproof.GuardedCalls.call = unguarded
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)


def asks_elsewhere(grad, master, exp_avg, exp_avg_sq, *, t, lr, beta1, beta2, eps, weight_decay, bias_correction):
    if not calls:
        calls.append(subprocess.Popen([sys.executable, '-c', SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    server = calls[0]
    words = dict(t=t, lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, bias_correction=bias_correction)
    pickle.dump((grad, master, exp_avg, exp_avg_sq, words), server.stdin)
    server.stdin.flush()
    master[...], exp_avg[...], exp_avg_sq[...] = pickle.load(server.stdout)


SERVER = '''
import pickle, sys
import zproof
while True:
    *arrays, words = pickle.load(sys.stdin.buffer)
    zproof.reference.adamw(*arrays, **words, inplace=True)
    pickle.dump(arrays[1:], sys.stdout.buffer)
    sys.stdout.buffer.flush()
'''
"""

# A module that the judge might import later, written when the callable is imported.
MODULE = """
open('ml_dtypes.py', 'w').write('''
import os, sys
if 'zproof.cli' in sys.modules:
    os.write(1, b"1 pass, 0 fail")
    os._exit(0)
raise ImportError
''')
def adamw(grad, master): master.fill(0)
"""

# The command, on a kernel without seccomp and Landlock and with no time to end what the callable leaves behind.
LEAVES = """
import sys
from zproof import cli, isolation
isolation._zproof.forbid_others = lambda: None
isolation._ENDING = 0
sys.exit(cli.main(sys.argv[1:]))
"""

# The command, and what it imports after it has started the callable.
IMPORTS = """
import sys
from zproof import cli, isolation
known = []
launch = isolation.CallableProcess._launch
def launched(self):
    known[:] = known or sys.modules
    launch(self)
isolation.CallableProcess._launch = launched
code = cli.main(sys.argv[1:])
print('imported', sorted(set(sys.modules) - set(known) - set(sys.builtin_module_names)))  # no file replaces those
sys.exit(code)
"""

DECLARATION = """
import os, struct
def forge(verdict, text):
    for name in map(int, os.listdir('/proc/self/fd')):
        try:
            if name > 2:
                os.write(name, struct.pack('<QBI', 1, verdict, len(text)) + text)
        except OSError:
            pass
forge({verdict}, {text!r})
def adamw(grad): pass
"""


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        (cls.folder / "attacks.py").write_text(ATTACKS.format(here=str(HERE)))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def attack(self, code, name, *parts, file="attacks.py", words=(), cwd=None, python=()):
        done = subprocess.run([sys.executable, *python, "-m", "zproof", "verify", f"{file}:{name}", "--op", "adamw",
                               "--fill", "training", "--timeout", "60", *words], cwd=cwd or self.folder,
                              capture_output=True, text=True, timeout=100)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        for part in parts:
            self.assertIn(part, done.stdout, said)
        self.assertNotIn("Traceback", said)
        self.assertNotIn("invalid literal", said)
        if code != 0:
            self.assertNotIn("1 pass", done.stdout)
        return done

    def test_an_exit_code_written_into_the_pipe(self):
        self.attack(6, "exit_code_in_pipe", "ended by itself, with code 0")

    def test_a_patched_report(self):
        self.attack(1, "patched_report", "0 pass, 1 fail")
        self.attack(1, "patched_exit", "0 pass, 1 fail")

    def test_garbage_in_the_pipe(self):
        self.attack(1, "garbage_in_pipe", "wrote to the connection of the judge")
        self.attack(1, "endless_garbage", "wrote to the connection of the judge")
        self.attack(6, "half_an_answer", "ended by itself, with code 0")

    def test_forged_answers(self):
        for name in ("forged_answer", "next_answer", "repeated_answer", "other_number", "late_answer",
                     "other_status"):
            with self.subTest(name):
                self.attack(1, name, "wrote to the connection of the judge", words=["--timeout", "30"])

    def test_an_end_without_an_answer(self):
        self.attack(6, "leaves_in_the_middle", "ended by itself, with code 0")
        self.attack(6, "closes_pipe", "closed the connection of the judge")

    def test_forged_declarations(self):
        declared = b'{"name": "adamw", "parameters": [["grad", "KEYWORD_ONLY", false]]}'
        for verdict, text in [(0, b""), (0, b"[" * 60000), (0, b'{"name": 1, "parameters": []}'), (1, b"fail adamw"),
                              (1, b"pass adamw"), (9, b""), (0, declared),
                              (0, b'{"name": "adamw", "parameters": [], "source": ["a", 1e999]}')]:
            with self.subTest(text[:40]):
                (self.folder / "attacks_import.py").write_text(DECLARATION.format(verdict=verdict, text=text))
                self.attack(1, "adamw", "wrote to the connection of the judge", file="attacks_import.py")

    def test_another_declaration_after_a_crash(self):
        (self.folder / "attacks_again.py").write_text(
            "import os\nagain = os.path.exists('again')\nopen('again', 'w').close()\n"
            "if again:\n    def adamw(grad): pass\nelse:\n    def adamw(master): os._exit(0)\n")
        self.attack(6, "adamw", "0 pass, 0 fail, 1 tampered, 1 crashed", "its parameters were others",
                    file="attacks_again.py", words=["--fill", "ties"])

    def test_a_module_written_for_the_judge(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "lazy.py").write_text(MODULE)
            self.attack(1, "adamw", "0 pass, 1 fail", file="lazy.py", cwd=folder)

    def test_nothing_is_imported_after_the_launch(self):
        for name in ("wrong", "leaves_in_the_middle", "patched_exit", "says_surrogates"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, "-c", IMPORTS, "verify", f"{self.folder}/attacks.py:{name}", "--op",
                                       "adamw", "--fill", "training", "--save-failing", "failing", "--report",
                                       "text,json:a.json,junit:a.xml,html:a.html"], cwd=folder, capture_output=True,
                                      text=True, timeout=100)
                self.assertIn("imported []", done.stdout, done.stdout + done.stderr)

    def test_limits_and_priority_of_the_judge(self):
        self.attack(9, "limits_judge", "refused: PermissionError")
        self.attack(9, "slows_judge", "refused: 3")
        self.attack(9, "traces_judge", f"errors {11 * [1]}")

    def test_events_on_the_judge(self):
        self.attack(9, "watches_judge", "errors [1, 1, 1]")

    def test_the_terminal(self):
        self.attack(9, "stops_terminal", "Operation not permitted")
        self.attack(9, "output_is", "True True")

    def test_output_is_passed_on_without_control_characters(self):
        said = self.attack(0, "prints", "1 pass, 0 fail").stderr
        self.assertIn("x" * 300000 + "?[2Jend ?2J ?\u00e9\n", said)

    def test_a_process_that_outlives_its_parents(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.attack(1, "outlives", "0 pass, 1 fail", file=self.folder / "attacks.py", cwd=folder)
            self.assertNotIn("1 pass", done.stderr)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(Path(folder, "outlives").read_text()), 0)

    def test_all_its_processes_stay_in_one_group(self):
        self.attack(9, "leaves_group", "stays: 1")

    def test_a_process_that_keeps_the_connection_open(self):
        began = time.monotonic()
        self.attack(6, "leaves_open", "ended by itself, with code 3")
        self.assertLess(time.monotonic() - began, 50)

    def test_a_process_that_cannot_be_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", LEAVES, "verify", f"{self.folder}/attacks.py:outlives", "--op",
                                   "adamw", "--fill", "training"], cwd=folder, capture_output=True, text=True, timeout=100)
            os.kill(int(Path(folder, "outlives").read_text()), signal.SIGKILL)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("TAMPERED", done.stdout)
            self.assertIn("it left processes behind that could not be ended", done.stdout)

    def test_answers_of_threads_and_children(self):
        self.attack(0, "from_thread_and_child", "1 pass, 0 fail")

    def test_files_may_be_moved_between_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            self.attack(0, "moves_files", "1 pass, 0 fail", file=self.folder / "attacks.py", cwd=folder)

    def test_pipes_in_the_place_of_reports(self):
        with tempfile.TemporaryDirectory() as folder:
            self.attack(1, "makes_pipes", "0 pass, 1 fail", file=self.folder / "attacks.py", cwd=folder,
                        words=["--report", "text,json:report.json,junit:report.xml"])
            self.assertIn('"fail"', Path(folder, "report.json").read_text())
            self.assertIn("</testsuites>", Path(folder, "report.xml").read_text())
            self.assertEqual(sorted(os.listdir(folder)), ["report.json", "report.xml"])

    def test_a_pipe_from_before_gets_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(Path(folder, "report.json"))
            reader = os.open(Path(folder, "report.json"), os.O_RDWR)
            self.attack(1, "wrong", file=self.folder / "attacks.py", cwd=folder,
                        words=["--report", "text,json:report.json"])
            self.assertIn(b'"fail"', os.read(reader, 1 << 16))
            os.close(reader)

    def test_half_a_character_in_an_exception(self):
        self.attack(9, "says_surrogates", "it raised RuntimeError: half a pair: ?")

    def test_no_memory_is_no_verdict(self):
        code = ("import sys\nfrom zproof import cli\ndef fails(args): raise MemoryError\ncli._verify = fails\n"
                "sys.exit(cli.main(['verify', 'a.py:adamw']))")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"^zproof: .+ \(.+\); .+\n$")

    @unittest.skipIf(sys.version_info < (3, 11), "python -P is an option of 3.11")
    def test_a_module_in_the_current_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "numpy.py").write_text("import os\nos._exit(0)\n")
            self.attack(6, "wrong", "ended by itself, with code 0", file=self.folder / "attacks.py", cwd=folder,
                        python=["-P"])

    @unittest.skipIf(_zproof.landlock_version() < 1, "this kernel has no Landlock")
    def test_memory_and_output_of_the_judge(self):
        self.attack(9, "opens_memory", "refused: PermissionError")
        self.attack(9, "opens_output", "refused: PermissionError")
        self.attack(9, "opens_kernel_files", "opened [], score 1000")

    @unittest.skipIf(_zproof.landlock_version() < 1, "this kernel has no Landlock")
    def test_a_terminal_of_the_user(self):
        ends = os.openpty()
        with unittest.mock.patch.dict(os.environ, ZP_TEST_TERMINAL=os.ttyname(ends[1])):
            self.attack(9, "opens_terminal", "refused: PermissionError")
        for end in ends:
            os.close(end)

    def test_memory_of_the_judge_without_landlock(self):
        code = ("import ctypes\nfrom zproof.isolation import CallableProcess\nwith CallableProcess('module:name', 1):\n"
                "    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))")  # PR_GET_DUMPABLE
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "0\n")

    def test_signals_to_the_judge(self):
        self.attack(9, "kills_judge", "refused: PermissionError")
        self.attack(9, "stops_judge", "refused: PermissionError")
        self.attack(9, "kills_groups", "refused: 2")
        self.attack(9, "owns_signal", "refused: PermissionError")

    def test_only_the_connection_is_inherited(self):
        self.attack(9, "lists_descriptors", "5 descriptors, 1 connection")  # three standard ones, and that of the list

    def test_removed_checks_of_the_callables_process_are_not_seen(self):
        self.attack(0, "hides_edits", "1 pass, 0 fail")

    def test_asking_the_reference_in_another_process_is_not_seen(self):
        self.attack(0, "asks_elsewhere", "1 pass, 0 fail")


if __name__ == "__main__":
    unittest.main()
