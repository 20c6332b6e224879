#!/usr/bin/env python3
"""The shim with real processes: starts once, records every end, kills everything."""

import os
import pwd
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shim_lib as lib  # noqa: E402
from shim_lib import shell  # noqa: E402

ROOT = os.getuid() == 0
# One that every user may run: sys.executable may lie in a private home.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
UNIFIED = next((folder for folder in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
                if os.path.exists(folder + "/cgroup.procs")
                and os.path.exists(folder + "/cgroup.controllers")), None)


class ShimTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="shim-test-")
        os.chmod(self.root, 0o755)
        self.attempts = []

    def tearDown(self):
        """No process of a test outlives it."""
        for attempt in self.attempts:
            records = attempt.records()
            if records and records[-1]["kind"] != lib.EMPTY:
                try:
                    attempt.connect().ask(lib.KILL)
                    attempt.wait_over()
                except (OSError, EOFError):
                    attempt.sweep("--kill")
        shutil.rmtree(self.root)

    def attempt(self, ranks=None, **kwargs):
        attempt = lib.Attempt(self.root)
        self.attempts.append(attempt)
        if ranks is not None:
            attempt.write_launch(lib.launch_bytes(ranks, **kwargs))
        return attempt

    def launched(self, ranks, **kwargs):
        attempt = self.attempt(ranks, **kwargs)
        self.assertEqual(attempt.start(), (lib.OK, ""))
        return attempt

    # ---- ends --------------------------------------------------------------------------

    def test_ends_are_recorded_while_nobody_listens(self):
        scripts = ["exit 0", "exit 75", "exit 93", "kill -SEGV $$", "kill -9 $$"]
        attempt = self.launched([(shell(script), [], "") for script in scripts])
        attempt.wait_over()
        ends = [attempt.end_of(index) for index in range(5)]
        self.assertEqual([(end["kind"], end["code"]) for end in ends],
                         [(lib.EXITED, 0), (lib.EXITED, 75), (lib.EXITED, 93),
                          (lib.SIGNALED, signal.SIGSEGV), (lib.SIGNALED, signal.SIGKILL)])
        self.assertEqual([end["after"] for end in ends], [0] * 5)
        records = attempt.records()
        self.assertEqual(records[0]["kind"], lib.OPEN)
        self.assertEqual([record["kind"] for record in records[1:6]], [lib.START] * 5)
        self.assertEqual([record["code"] for record in records[1:6]], [8, 9, 10, 11, 12])
        self.assertEqual({(record["job"], record["attempt"]) for record in records}, {(7, 3)})
        self.assertFalse(os.path.exists(attempt.path("sock")))
        self.assertEqual(attempt.sweep(), (lib.OK, ""))

    def test_ends_are_pushed_to_subscribers_once_durable(self):
        go = os.path.join(self.root, "go")
        os.mkfifo(go)
        attempt = self.launched([(shell(f"read x < {go}; exit 17"), [], ""),
                                 (shell("exec sleep 600"), [], "")])
        client = attempt.connect()
        client.subscribe_until(lambda s: all(r["state"] == "running" for r in s["ranks"]))
        with open(go, "w", encoding="ascii") as file:
            file.write("\n")
        status = client.subscribe_until(lambda s: s["ranks"][0]["state"] == "exited")
        self.assertEqual(status["ranks"][0]["code"], 17)
        self.assertEqual(status["alive"], 1)
        self.assertEqual(status["ranks"][0]["end_sequence"], attempt.end_of(0)["sequence"])
        self.assertEqual(status["ranks"][1]["state"], "running")
        self.assertEqual(status["empty"], 0)

    # ---- TERM, KILL, empty -------------------------------------------------------------

    def test_term_ends_and_is_told_as_ours(self):
        attempt = self.launched([(shell("exec sleep 600"), [], ""),
                                 (shell("trap 'exit 75' TERM; while :; do sleep 0.05; done"), [],
                                  "")])
        client = attempt.connect()
        client.subscribe_until(lambda s: all(r["state"] == "running" for r in s["ranks"]))
        lib.wait_for(lambda: self.catches(attempt.records()[2]["pid"], signal.SIGTERM))
        status = client.ask(lib.TERM)
        self.assertEqual((status["term"], status["error"]), (1, 0))
        self.assertIn(lib.ORDER, attempt.kinds())
        attempt.wait_over()
        self.assertEqual([(attempt.end_of(i)["code"], attempt.end_of(i)["after"])
                          for i in range(2)], [(signal.SIGTERM, 1), (75, 1)])

    def test_a_crash_that_is_not_over_when_the_order_comes_is_not_ours(self):
        """Its peers saw its connections close, gave up, and the stop came, all while it ended."""
        for op in (lib.TERM, lib.KILL):
            attempt = self.launched([(shell("exec sleep 600"), [], ""),
                                     (shell("exec sleep 600"), [], "")])
            client = attempt.connect()
            client.subscribe_until(lambda s: all(r["state"] == "running" for r in s["ranks"]))
            try:
                crashing = lib.HeldExit(attempt.records()[1]["pid"])
            except PermissionError as error:
                client.ask(lib.KILL)
                self.skipTest(f"processes may not be traced here: {error}")
            crashing.crash(signal.SIGSEGV)
            client.ask(op)
            client.subscribe_until(lambda s: s["ranks"][1]["state"] == "signaled")
            self.assertEqual(client.ask(lib.LIST)["ranks"][0]["state"], "running")
            crashing.release()
            attempt.wait_over()
            self.assertEqual([(attempt.end_of(i)["code"], attempt.end_of(i)["after"])
                              for i in range(2)],
                             [(signal.SIGSEGV, 0),
                              (signal.SIGTERM if op == lib.TERM else signal.SIGKILL, 1)])

    @staticmethod
    def catches(pid, number):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            mask = next(line for line in file if line.startswith("SigCgt:"))
        return int(mask.split()[1], 16) >> (number - 1) & 1

    def test_term_ignored_then_kill(self):
        attempt = self.launched([(shell("trap '' TERM; echo ready; exec sleep 600"), [],
                                  self.root + "/out")])
        lib.wait_for(lambda: lib.read_file(self.root + "/out") == "ready\n")
        client = attempt.connect()
        pid = client.ask(lib.LIST)["ranks"][0]["pid"]
        client.ask(lib.TERM)
        self.assertTrue(lib.is_alive(pid))
        self.assertEqual(client.ask(lib.LIST)["empty"], 0)
        client.ask(lib.KILL)
        attempt.wait_over()
        self.assertFalse(lib.is_alive(pid))
        self.assertEqual(attempt.end_of(0)["code"], signal.SIGKILL)

    def escape_check(self, **kwargs):
        """A grandchild in a session of its own, double-forked, deaf, with an empty environment."""
        out = self.root + "/pid"
        child = ("import os,signal,sys\n"
                 "if os.fork(): os.wait(); os._exit(0)\n"
                 "os.setsid()\n"
                 "if os.fork(): os._exit(0)\n"
                 "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                 f"open('{out}.new','w').write(str(os.getpid()))\n"
                 f"os.rename('{out}.new', '{out}')\n"
                 "os.execve('/bin/sleep', ['sleep', '600'], {})\n")
        attempt = self.launched([([PYTHON, "-c", child], [], "")], **kwargs)
        pid = int(lib.wait_for(lambda: lib.read_file(out)))
        client = attempt.connect()
        status = client.subscribe_until(lambda s: s["ranks"][0]["state"] == "exited")
        self.assertEqual((status["empty"], status["alive"]), (0, 0))
        self.assertTrue(lib.is_alive(pid))
        client.ask(lib.TERM)
        self.assertEqual(client.ask(lib.LIST)["empty"], 0)
        self.assertTrue(lib.is_alive(pid))
        client.ask(lib.KILL)
        attempt.wait_over()
        self.assertFalse(lib.is_alive(pid))
        return status

    def test_escaped_grandchild_is_killed_and_only_then_empty(self):
        self.assertEqual(self.escape_check()["cgroup"], 0)

    @unittest.skipUnless(ROOT and UNIFIED, "skipped: no cgroup v2 that this user may write")
    def test_escaped_grandchild_in_cgroup(self):
        path = f"{UNIFIED}/shim-test-{os.getpid()}"
        self.assertEqual(self.escape_check(cgroup=path)["cgroup"], 1)
        lib.wait_for(lambda: not os.path.exists(path), what="the end of the cgroup")

    @unittest.skipUnless(ROOT and UNIFIED, "skipped: no cgroup v2 that this user may write")
    def test_cgroup_in_use_is_refused(self):
        path = f"{UNIFIED}/shim-test-{os.getpid()}"
        os.mkdir(path)
        sleeper = subprocess.Popen(["sleep", "600"])
        try:
            with open(path + "/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(sleeper.pid))
            attempt = self.attempt([(shell("exit 0"), [], "")], cgroup=path)
            code, message = attempt.start()
            self.assertEqual(code, lib.BAD)
            self.assertIn("already holds processes", message)
            self.assertEqual(attempt.records(), [])
        finally:
            sleeper.kill()
            sleeper.wait()
            lib.wait_for(lambda: "populated 0" in lib.read_file(path + "/cgroup.events"))
            os.rmdir(path)

    def test_fork_storm_is_killed(self):
        """Each process forks on and ends: always another pid, in sessions of their own."""
        storm = ("import os,signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                 "n=0\nwhile True:\n"
                 "    if os.fork():\n        os._exit(0)\n"
                 "    n+=1\n"
                 "    if n%7==0: os.setsid()\n")
        attempt = self.launched([([PYTHON, "-c", storm], [], "")])
        client = attempt.connect()
        client.subscribe_until(lambda s: s["ranks"][0]["state"] == "exited")
        client.ask(lib.KILL)
        attempt.wait_over()

    def test_children_of_an_ended_rank_get_term_too(self):
        out = self.root + "/pid"
        attempt = self.launched([(shell(f"sleep 600 & echo $! > {out}.new; mv {out}.new {out}"),
                                  [], "")])
        pid = int(lib.wait_for(lambda: lib.read_file(out)))
        client = attempt.connect()
        client.subscribe_until(lambda s: s["ranks"][0]["state"] == "exited")
        self.assertTrue(lib.is_alive(pid))
        client.ask(lib.TERM)
        attempt.wait_over()
        self.assertFalse(lib.is_alive(pid))

    # ---- once --------------------------------------------------------------------------

    def counted(self, count=2, script="exec sleep 600"):
        """Ranks that leave one line for each start of each rank."""
        ranks = [(shell(f"echo start >> {self.root}/starts-{i}; {script}"), [], "")
                 for i in range(count)]
        return self.attempt(ranks)

    def starts(self, index):
        return lib.read_file(f"{self.root}/starts-{index}").count("start")

    def test_second_shim_is_refused(self):
        attempt = self.counted()
        self.assertEqual(attempt.start()[0], lib.OK)
        lib.wait_for(lambda: self.starts(0) + self.starts(1) == 2)
        code, message = attempt.start()
        self.assertEqual(code, lib.RUNNING)
        self.assertIn("another shim", message)
        client = attempt.connect()
        client.ask(lib.KILL)
        attempt.wait_over()
        self.assertEqual(attempt.start()[0], lib.SPENT)
        self.assertEqual((self.starts(0), self.starts(1)), (1, 1))

    def test_two_shims_at_once(self):
        attempt = self.counted()
        both = [subprocess.Popen([lib.SHIM, "--dir", attempt.folder], stderr=subprocess.DEVNULL)
                for _ in range(6)]
        codes = sorted(process.wait(20) for process in both)
        self.assertEqual(codes, [lib.OK] + [lib.RUNNING] * 5)
        lib.wait_for(lambda: self.starts(0) + self.starts(1) == 2)

    def test_dead_shim_leaves_orphans_that_are_found(self):
        attempt = self.counted()
        self.assertEqual(attempt.start()[0], lib.OK)
        lib.wait_for(lambda: self.starts(0) + self.starts(1) == 2)
        self.assertEqual(attempt.sweep(), (lib.RUNNING, ""))
        pids = {record["pid"] for record in attempt.records() if record["kind"] == lib.START}
        lib.kill_shim(attempt)
        self.assertTrue(all(lib.is_alive(pid) for pid in pids))
        self.assertEqual(attempt.start()[0], lib.SPENT)
        code, found = attempt.sweep()
        self.assertEqual(code, lib.ALIVE)
        self.assertEqual({int(line.split()[1]) for line in found.splitlines()}, pids)
        code, _ = attempt.sweep("--kill")
        self.assertEqual(code, lib.ALIVE)
        lib.wait_for(lambda: not any(lib.is_alive(pid) for pid in pids))
        self.assertEqual(attempt.sweep()[0], lib.UNPROVEN)
        self.assertEqual((self.starts(0), self.starts(1)), (1, 1))

    def test_orphan_of_orphan_is_found_by_cookie(self):
        out = self.root + "/pid"
        script = f"setsid sh -c 'echo $$ > {out}.new; mv {out}.new {out}; exec sleep 600' & wait"
        attempt = self.launched([(shell(script), [], "")])
        pid = int(lib.wait_for(lambda: lib.read_file(out)))
        rank = attempt.records()[1]["pid"]
        lib.kill_shim(attempt)
        os.kill(rank, signal.SIGKILL)
        lib.wait_for(lambda: not lib.is_alive(rank))
        lib.wait_for(lambda: b"sleep" in open(f"/proc/{pid}/cmdline", "rb").read())
        self.assertEqual(attempt.sweep("--kill"), (lib.ALIVE, f"pid {pid} cookie\n"))
        lib.wait_for(lambda: not lib.is_alive(pid))

    @unittest.skipUnless(ROOT and UNIFIED, "skipped: no cgroup v2 that this user may write")
    def test_sweep_proves_by_cgroup(self):
        path = f"{UNIFIED}/shim-test-{os.getpid()}"
        attempt = self.launched([(shell("exec sleep 600"), [], "")], cgroup=path)
        lib.kill_shim(attempt)
        code, found = attempt.sweep("--kill")
        self.assertEqual(code, lib.ALIVE)
        self.assertIn("cgroup populated", found)
        lib.wait_for(lambda: attempt.sweep()[0] == lib.OK, what="the proof")
        self.assertFalse(os.path.exists(path))

    def test_killed_at_every_durable_write(self):
        """Three points a write: before, half-way, after. Nothing ever starts twice."""
        crashed = 0
        for point in range(1, 100):
            for index in range(2):
                if os.path.exists(f"{self.root}/starts-{index}"):
                    os.unlink(f"{self.root}/starts-{index}")
            attempt = self.counted(script="sleep 0.05; exit 5")
            code, _ = attempt.start(f"--crash-at={point}")
            records = attempt.records()
            begun = bool(records)
            if records:
                lib.wait_gone(records[0]["pid"])
            kinds = attempt.kinds()
            if kinds and kinds[-1] == lib.EMPTY and code == lib.OK and crashed:
                finished = point
                if self.end_point(attempt) * 3 < point:
                    break
            crashed += 1
            self.assertIn(code, (lib.OK, lib.SPENT if begun else lib.SYSTEM), point)
            started = lib.START in kinds
            orphans = [r["pid"] for r in attempt.records() if r["kind"] == lib.START]
            lib.wait_for(lambda: not any(lib.is_alive(pid) for pid in orphans))
            again, _ = attempt.start()
            if begun:
                self.assertEqual(again, lib.SPENT, point)
            else:
                self.assertEqual(again, lib.OK, point)
                attempt.wait_over()
                started = True
            counts = [self.starts(0), self.starts(1)]
            self.assertTrue(all(count <= 1 for count in counts), (point, counts))
            if not started:
                self.assertEqual(counts, [0, 0], point)
        else:
            self.fail("the scenario never ended")
        self.assertGreaterEqual(finished, 3 * 4, "OPEN, START, ends, EMPTY")

    @staticmethod
    def end_point(attempt):
        """How many appends that were: START is one for all ranks, ends may share one."""
        kinds = attempt.kinds()
        return 3 + len([kind for kind in kinds if kind == lib.EXITED])

    def test_torn_tail_is_passed_over(self):
        attempt = self.launched([(shell("exit 0"), [], "")])
        attempt.wait_over()
        count = len(attempt.records())
        with open(attempt.path("ends"), "r+b") as file:
            file.seek(count * lib.RECORD.size - 30)
            file.write(b"\xff" * 300)
        self.assertEqual(len(attempt.records()), count - 1)
        self.assertEqual(attempt.start()[0], lib.SPENT)
        # The shim may still be on its way out.
        lib.wait_for(lambda: attempt.sweep()[0] == lib.UNPROVEN)

    @unittest.skipUnless(ROOT, "skipped: needs root to mount a small disk")
    def test_full_disk(self):
        disk = self.root + "/disk"
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("skipped: no mount")
        try:
            attempt = lib.Attempt(disk)
            go = self.root + "/go"
            os.mkfifo(go)
            attempt.write_launch(lib.launch_bytes([(shell(f"read x < {go}; exit 9"), [], "")]))
            self.fill(disk)
            code, message = attempt.start()
            self.assertEqual(code, lib.SYSTEM)
            self.assertIn("No space left", message)
            self.assertEqual(attempt.records(), [])
            os.unlink(disk + "/filler")
            self.assertEqual(attempt.start(), (lib.OK, ""))
            # Full from here on: what was allocated at the start takes every end.
            self.fill(disk)
            with open(go, "w", encoding="ascii") as file:
                file.write("\n")
            attempt.wait_over()
            self.assertEqual(attempt.end_of(0)["code"], 9)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)

    @staticmethod
    def fill(disk):
        with open(disk + "/filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    # ---- the way to exec ---------------------------------------------------------------

    def test_unstarted_with_stage_and_errno(self):
        attempt = self.launched([(["/no/such/program"], [], ""), (["/etc/passwd"], [], ""),
                                 (shell("exit 0"), [], "/dev/null/x")])
        attempt.wait_over()
        ends = [attempt.end_of(index) for index in range(3)]
        self.assertEqual([(end["kind"], end["code"], lib.STAGES[end["stage"]]) for end in ends],
                         [(lib.UNSTARTED, 2, "exec"), (lib.UNSTARTED, 13, "exec"),
                          (lib.UNSTARTED, 20, "output")])
        attempt = self.launched([(shell("exit 0"), [], "")], workdir="/no/such/folder")
        attempt.wait_over()
        end = attempt.end_of(0)
        self.assertEqual((end["kind"], end["code"], lib.STAGES[end["stage"]]),
                         (lib.UNSTARTED, 2, "workdir"))

    def test_output_is_appended_made_and_never_through_a_link(self):
        victim = self.root + "/victim"
        with open(victim, "w", encoding="ascii") as file:
            file.write("precious\n")
        os.symlink(victim, self.root + "/link")
        os.mkfifo(self.root + "/pipe")
        out = self.root + "/deep/er/out"
        attempt = self.launched([(shell("echo evil"), [], self.root + "/link"),
                                 (shell("echo one; echo two >&2"), [], "deep/er/out"),
                                 (shell("echo pipe"), [], self.root + "/pipe")],
                                workdir=self.root)
        attempt.wait_over()
        end = attempt.end_of(0)
        self.assertEqual((end["kind"], end["code"], lib.STAGES[end["stage"]]),
                         (lib.UNSTARTED, 40, "output"))
        self.assertEqual(lib.read_file(victim), "precious\n")
        self.assertEqual(attempt.end_of(2)["kind"], lib.UNSTARTED)
        self.assertEqual(lib.read_file(out), "one\ntwo\n")
        again = self.launched([(shell("echo three"), [], out)])
        again.wait_over()
        self.assertEqual(lib.read_file(out), "one\ntwo\nthree\n")

    PROBE = ("import os,resource,signal,json\n"
             "status=dict(l.split(':',1) for l in open('/proc/self/status'))\n"
             "mask=lambda k: int(status[k].strip(),16)\n"
             "soft=lambda r: resource.getrlimit(r)[0]==resource.getrlimit(r)[1]\n"
             "print(json.dumps(dict(uid=os.getresuid(),gid=os.getresgid(),"
             "groups=sorted(os.getgroups()),env=dict(os.environ),umask=os.umask(0),"
             "blocked=mask('SigBlk'),ignored=mask('SigIgn')&~(1<<12)&~(1<<24),cwd=os.getcwd(),"
             "oom=open('/proc/self/oom_score_adj').read().strip(),"
             "cpus=len(os.sched_getaffinity(0)),nofile=soft(resource.RLIMIT_NOFILE),"
             "memlock=soft(resource.RLIMIT_MEMLOCK),"
             "core=resource.getrlimit(resource.RLIMIT_CORE)[0],"
             "fds=[f for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/'+f)],"
             "leader=os.getsid(0)==os.getpid()==os.getpgid(0))))\n")

    def probe(self, **kwargs):
        out = kwargs.pop("out", self.root + "/probe")
        attempt = self.launched([([PYTHON, "-c", self.PROBE], ["B=2", "A=rank"], out)],
                                **kwargs)
        attempt.wait_over()
        self.assertEqual(attempt.end_of(0)["kind"], lib.EXITED, attempt.end_of(0))
        import json  # noqa: PLC0415
        return json.loads(lib.read_file(out))

    def test_what_a_rank_finds(self):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        try:
            found = self.probe(env=["PATH=/usr/bin:/bin", "A=common", "C=c"], umask=0o27,
                               workdir="/usr", core=4096)
        finally:
            os.sched_setaffinity(0, set(range(os.cpu_count())))
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        found["env"].pop("LC_CTYPE", None)
        self.assertEqual(found["env"], {"PATH": "/usr/bin:/bin", "A": "rank", "B": "2", "C": "c",
                                        "KEEPSTEP_COOKIE": lib.COOKIE})
        self.assertEqual((found["umask"], found["cwd"]), (0o27, "/usr"))
        own = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's: nobody else may set them
        self.assertEqual((found["blocked"], found["ignored"] & ~own), (0, 0))
        self.assertTrue(found["nofile"] and found["memlock"] and found["leader"])
        self.assertEqual(found["oom"], "0")
        self.assertEqual(found["cpus"], os.cpu_count())
        self.assertLessEqual(found["core"], 4096)
        self.assertEqual(sorted(found["fds"]), ["0", "1", "2"])

    @unittest.skipUnless(ROOT, "skipped: needs root to become somebody else")
    def test_user_switch(self):
        nobody = pwd.getpwnam("nobody")
        private = self.root + "/private"
        os.mkdir(private, 0o700)
        work = self.root + "/work"
        os.mkdir(work)
        os.chown(work, nobody.pw_uid, nobody.pw_gid)
        found = self.probe(uid=nobody.pw_uid, gid=nobody.pw_gid, groups=[nobody.pw_gid, 4242],
                           allow_root=False, workdir=work, out=work + "/logs/probe")
        self.assertEqual(found["uid"], [nobody.pw_uid] * 3)
        self.assertEqual(found["gid"], [nobody.pw_gid] * 3)
        self.assertEqual(found["groups"], sorted([4242, nobody.pw_gid]))
        self.assertEqual(os.stat(work + "/logs").st_uid, nobody.pw_uid)
        self.assertEqual(os.stat(work + "/logs/probe").st_uid, nobody.pw_uid)
        # Paths are the user's business: what it may not open, root does not open for it.
        attempt = self.launched([(shell("exit 0"), [], private + "/out")], uid=nobody.pw_uid,
                                gid=nobody.pw_gid, allow_root=False, workdir="/")
        attempt.wait_over()
        self.assertEqual((attempt.end_of(0)["kind"], attempt.end_of(0)["code"]),
                         (lib.UNSTARTED, 13))
        self.assertEqual(os.listdir(private), [])
        attempt = self.launched([(shell("exit 0"), [], "")], uid=nobody.pw_uid, gid=nobody.pw_gid,
                                allow_root=False, workdir=private)
        attempt.wait_over()
        self.assertEqual((attempt.end_of(0)["code"], lib.STAGES[attempt.end_of(0)["stage"]]),
                         (13, "workdir"))

    def test_root_needs_to_be_allowed(self):
        attempt = self.attempt([(shell("exit 0"), [], "")], uid=0, gid=0, allow_root=False)
        code, message = attempt.start()
        self.assertEqual(code, lib.BAD)
        self.assertIn("against the rules", message)

    @unittest.skipUnless(ROOT, "skipped: needs root to become somebody else")
    def test_unprivileged_shim_takes_only_its_own_user(self):
        nobody = pwd.getpwnam("nobody")
        attempt = self.attempt([(shell("exit 0"), [], "")], uid=0, gid=0)
        os.chown(attempt.folder, nobody.pw_uid, nobody.pw_gid)
        os.chmod(attempt.path("launch"), 0o644)
        shim = shutil.copy(lib.SHIM, self.root)  # a build folder may be closed to others
        done = subprocess.run([shim, "--dir", attempt.folder], user=nobody.pw_uid,
                              group=nobody.pw_gid, capture_output=True, check=False)
        self.assertEqual(done.returncode, lib.BAD)
        self.assertIn("only root", done.stderr.decode())
        attempt.write_launch(lib.launch_bytes([(shell("exit 4"), [], "")], uid=nobody.pw_uid,
                                              gid=nobody.pw_gid))
        done = subprocess.run([shim, "--dir", attempt.folder], user=nobody.pw_uid,
                              group=nobody.pw_gid, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (lib.OK, b""))
        attempt.wait_over()
        self.assertEqual(attempt.end_of(0)["code"], 4)

    # ---- bad input ---------------------------------------------------------------------

    def refused(self, data, word):
        attempt = self.attempt()
        if data is not None:
            attempt.write_launch(data)
        code, message = attempt.start()
        self.assertEqual(code, lib.BAD, message)
        self.assertIn(word, message)
        self.assertEqual(attempt.records(), [])

    def test_bad_launch_files(self):
        good = lib.launch_bytes([(shell("exit 0"), [], "")])
        self.refused(None, "missing")
        self.refused(b"", "torn")
        self.refused(os.urandom(5000), "torn")
        for size in range(1, len(good), 7):
            self.refused(good[:size], "torn")
        self.refused(good + b"x", "torn")
        self.refused(good[:40] + bytes([good[40] ^ 1]) + good[41:], "torn")
        self.refused(good[:8] + struct.pack("=I", 9) + good[12:], "another version")
        for broken in (dict(cookie="X" * 32), dict(workdir="relative"), dict(umask=0o1000),
                       dict(cgroup="/sys/../etc"), dict(env=["novalue"]), dict(uid=0xFFFFFFFF),
                       dict(env=["KEEPSTEP_COOKIE=mine"])):
            self.refused(lib.launch_bytes([(shell("exit 0"), [], "")], **broken), "against")
        self.refused(lib.launch_bytes([([], [], "")]), "against")
        self.refused(lib.launch_bytes([(shell("exit 0"), [], "")] * 17), "torn")

    def test_usage(self):
        for arguments in ([], ["--dir"], ["--what"], ["--dir", self.root, "--kill"],
                          ["--dir", self.root, "--crash-at=x"]):
            done = subprocess.run([lib.SHIM, *arguments], capture_output=True, check=False)
            self.assertEqual(done.returncode, lib.USAGE, arguments)
        done = subprocess.run([lib.SHIM, "--dir", self.root + "/none"], capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, lib.BAD)

    def test_hostile_clients(self):
        attempt = self.launched([(shell("exec sleep 600"), [], "")])
        first = attempt.connect()
        status = first.ask(99)
        self.assertEqual(status["error"], -22)
        garbage = attempt.connect()
        garbage.socket.sendall(b"x" * 4096)
        with self.assertRaises((EOFError, ConnectionError)):
            garbage.receive()
        half = attempt.connect()
        half.socket.sendall(b"KSW1")
        crowd = [attempt.connect() for _ in range(20)]
        for client in crowd[-8:]:
            self.assertEqual(client.ask(lib.LIST)["alive"], 1)
        deaf = attempt.connect()
        request = struct.pack("=IIQ", lib.MAGIC, lib.LIST, 1)
        try:
            for _ in range(5000):
                deaf.socket.sendall(request)
        except ConnectionError:
            pass  # dropped, as one that does not read should be
        self.assertEqual(attempt.connect().ask(lib.LIST)["alive"], 1)

    def test_signals_to_the_shim_end_nothing(self):
        attempt = self.launched([(shell("exec sleep 600"), [], "")])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGUSR1, signal.SIGPIPE):
            os.kill(attempt.shim_pid(), number)
        self.assertEqual(attempt.connect().ask(lib.LIST)["alive"], 1)

    def test_small(self):
        attempt = self.launched([(shell("exec sleep 600"), [], "") for _ in range(8)])
        attempt.connect().subscribe_until(
            lambda s: all(rank["state"] == "running" for rank in s["ranks"]))
        rollup = lib.read_file(f"/proc/{attempt.shim_pid()}/smaps_rollup")
        pss = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        print(f"shim of 8 ranks: PSS {pss} KiB")
        with open(lib.SHIM, "rb") as file:
            sanitized = b"__sanitizer" in file.read()
        if not sanitized:
            self.assertLess(pss, 1024)


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
