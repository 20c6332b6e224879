#!/usr/bin/env python3
"""python_agent.py: an agent, written from proto/PROTOCOL.md and keepstep.proto alone.

It shows that these two are enough, and leaves out what the page's section on small agents lets one
leave out. Everything runs in one asyncio loop; what may wait for a disk or a fork, in a thread
beside it. PYTHONPATH must have keepstep_pb2, which `protoc --python_out` makes of keepstep.proto.
"""

import argparse
import asyncio
import contextlib
import errno
import json
import os
import pathlib
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import types

import keepstep_pb2 as P
from frames import FROM_CONTROLLER, Refused, check_desired, frame, read_frame
from python_attempt import NO_PLAN, Attempt, now_ms, write_durably


class Agent:
    def __init__(self, options):
        self.options, self.jobs, self.tasks, self.asking = options, {}, set(), set()
        self.changed, self.orders = asyncio.Event(), asyncio.Queue()
        self.callers = asyncio.Semaphore(64)
        self.session, self.heard, self.welcomed, self.dropped = None, 0, False, 0
        self.boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        kept = {"boot_id": self.boot_id}
        with contextlib.suppress(FileNotFoundError):
            kept = json.loads(pathlib.Path("state.json").read_text())
        self.clean = kept.get("goodbye", False) or kept["boot_id"] == self.boot_id
        self.cluster_id, self.term = kept.get("cluster_id", ""), kept.get("term", 0)
        self.life, self.acknowledged = kept.get("life", 0) + 1, 0
        self.incarnation, self.sequence = now_ms() << 16 | random.getrandbits(16), self.life << 24
        for number, promised in kept.get("jobs", {}).items():
            self.job(int(number)).__dict__.update(promised)
        for path in pathlib.Path(".").glob("job-*/attempt-*/plan.json"):
            self.find(path)

    def find(self, path):
        """An attempt that an agent before this one has begun."""
        number, attempt = (int(part.split("-")[1]) for part in path.parts[:2])
        found = Attempt(self, number, attempt, json.loads(path.read_text()))
        job, self.job(number).attempts[attempt] = self.job(number), found
        found.set(stop_seen=attempt <= job.stopped, foreign=attempt > job.ordered)
        with contextlib.suppress(FileNotFoundError):
            for line in open(path.parent / "record"):
                found.take(json.loads(line))

    def job(self, number):
        return self.jobs.setdefault(number, types.SimpleNamespace(
            name="", ordered=-1, stopped=-1, grace_ms=0, forget=-1, last=(0, 0), run=None,
            attempts={}))

    async def save(self, goodbye=False):
        """What was seen and promised, durable."""
        promised = {number: {"name": job.name, "ordered": job.ordered, "stopped": job.stopped,
                             "grace_ms": job.grace_ms} for number, job in self.jobs.items()}
        await asyncio.to_thread(write_durably, "state.json", {
            "cluster_id": self.cluster_id, "term": self.term, "life": self.life, "jobs": promised,
            "boot_id": self.boot_id, "goodbye": goodbye})

    def spawn(self, coroutine):
        self.tasks.add(task := asyncio.ensure_future(coroutine))
        task.add_done_callback(self.tasks.discard)

    def say(self, m):
        if self.session is not None:
            self.session.write(frame(m))

    def reports(self):
        """Live ones first, then those with ends that are not acknowledged, newer before older."""
        found = [one for job in self.jobs.values() for one in job.attempts.values()]
        found.sort(key=lambda one: (one.report.empty, one.sequence <= self.acknowledged,
                                    -one.report.attempt))
        return [one.told() for one in found[:4]]

    async def dial(self):
        """Session after session, with backoff and full jitter between."""
        failures = 0
        while True:
            self.welcomed = False
            try:
                await self.meet()
            except (Refused, OSError, EOFError, TimeoutError) as why:
                print(f"the session ended: {why!r}", file=sys.stderr, flush=True)
            failures = 0 if self.welcomed else failures + 1
            await asyncio.sleep(random.uniform(0, min(5, .1 * 2 ** failures)))

    async def meet(self):
        host, port = self.options.controller.rsplit(":", 1)
        async with asyncio.timeout(6):
            reader, writer = await asyncio.open_connection(host, int(port))
        beats = None
        try:
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 6000)
            writer.write(frame(self.hello()))
            while True:
                async with asyncio.timeout(6):
                    m = await read_frame(reader, FROM_CONTROLLER if beats else ["Welcome"])
                self.heard = time.monotonic()
                if beats is not None and m is not None:
                    self.take(m)
                elif m is not None:
                    await self.welcome(m)
                    self.session, beats = writer, asyncio.ensure_future(self.beats())
        finally:
            self.session = None
            writer.close()
            if beats is not None:
                beats.cancel()

    def hello(self):
        node, gpus = self.options.node, self.options.gpus
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        inventory = P.Inventory(gpu_uuid=[f"GPU-{node}-{index}" for index in range(gpus)],
                                memory_bytes=memory_bytes, cpu_count=os.cpu_count())
        return P.Hello(
            cluster_id=self.cluster_id, node=node, boot_id=self.boot_id, clean_boot=self.clean,
            incarnation=self.incarnation, term_seen=self.term, version="python", protocol=1 << 16,
            address=self.options.address, peer_port=self.options.peer_port, inventory=inventory,
            labels=P.Labels(rack=self.options.rack), attempts=self.reports())

    async def welcome(self, m):
        if m.result != P.HELLO_WELCOME or self.cluster_id not in ("", m.cluster_id) or \
                m.term < self.term:
            raise Refused(f"result {m.result}, cluster {m.cluster_id}, term {m.term}: {m.text}")
        self.cluster_id, self.term, self.welcomed = m.cluster_id, m.term, True
        await self.save()

    async def beats(self):
        """A beat each second, and one at once when a report has changed, 50 ms apart at least."""
        due = time.monotonic()
        for sequence in range(1, 1 << 62):
            if time.monotonic() >= due:
                due = time.monotonic() + 1
                for job in self.jobs.values():
                    for one in job.attempts.values():
                        if one.sequence > self.acknowledged:
                            self.say(P.RankEnds(sequence=one.sequence, report=one.told()))
                    self.spawn(self.tidy(job))
            self.changed.clear()
            self.say(P.Beat(sequence=sequence, sent_ms=now_ms(), checks_ok=True,
                            attempts=self.reports()))
            await asyncio.sleep(.05)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), max(0, due - time.monotonic()))

    def take(self, m):
        name = m.DESCRIPTOR.name
        if name == "Ack" and m.term >= self.term:
            self.acknowledged = max(self.acknowledged, m.ends_sequence)
        elif name == "Desired":
            check_desired(m)
            self.orders.put_nowait(m)
        elif name == "PeerAsk" and m.nonce not in self.asking:
            self.spawn(self.ask(m, self.session))
        elif name == "Check":
            self.spawn(self.check(m))
        elif name == "LogRead":
            self.say(P.LogData(nonce=m.nonce, last=True, error=-errno.EOPNOTSUPP))
        elif name == "SaveAsk":
            self.say(P.SaveSaid(nonce=m.nonce, job=m.job, word=P.SAVE_DONE, text="not done here",
                                error=-errno.EOPNOTSUPP))

    # ---- orders ----

    async def obey(self):
        """One order after the other: what is promised by it is durable before it is acted upon."""
        while True:
            m = await self.orders.get()
            why = self.against(m)
            if why:
                self.dropped += 1
                print(f"dropped, {self.dropped} so far: {why}", file=sys.stderr, flush=True)
                continue
            job, self.term = self.job(m.job), max(self.term, m.term)
            job.last, job.name = (m.term, m.sequence), m.job_name or job.name
            if m.mode == P.DESIRED_RUN:
                if job.run and job.run.attempt == m.attempt:
                    m.spec = m.spec or job.run.spec
                job.run, job.ordered = m, max(job.ordered, m.attempt)
            elif m.mode == P.DESIRED_STOP:
                job.stopped, job.grace_ms = max(job.stopped, m.attempt), m.grace_ms
                job.forget = max(job.forget, m.attempt if m.forget else -1)
                if m.attempt not in job.attempts and not m.forget:  # none may come: an answer too
                    job.attempts[m.attempt] = one = Attempt(self, m.job, m.attempt, NO_PLAN)
                    one.set(empty=True, stop_seen=True)
            elif job.run and job.run.attempt not in job.attempts:
                job.run = None
            await self.save()
            self.converge(job)

    def against(self, m):
        """Why a Desired must be dropped, or None."""
        job = self.jobs.get(m.job) or types.SimpleNamespace(
            name="", ordered=-1, stopped=-1, last=(0, 0), attempts={})
        if m.cluster_id != self.cluster_id:
            return f"cluster {m.cluster_id} is another"
        if m.term < self.term or (m.term, m.sequence) < job.last:
            return f"term {m.term}, sequence {m.sequence} after {self.term}, {job.last}"
        if job.name and m.job_name and m.job_name != job.name:
            return f"job {m.job} is {job.name}, not {m.job_name}"
        if m.mode == P.DESIRED_RUN and (m.attempt <= job.stopped or m.attempt < max(
                [job.ordered, *job.attempts])):
            return f"attempt {m.attempt} of {m.job_name} is over"
        return None

    def converge(self, job):
        """From what runs to what shall run."""
        run = job.run if job.run and job.run.attempt > job.stopped else None
        grace_ms = run.grace_ms if run and run.attempt > job.stopped + 1 else job.grace_ms
        for number, one in sorted(job.attempts.items()):
            if number <= max(job.stopped, run.attempt - 1 if run else -1):
                at, known = time.monotonic() + grace_ms / 1000, one.kill_at
                one.kill_at = min(known or at, at)
                one.set(stop_seen=True)
                if known is None and not one.report.empty:
                    self.spawn(one.stop())
        if run and run.start and run.attempt not in job.attempts and all(
                one.report.empty for one in job.attempts.values()):
            try:
                plan = self.plan(run)
            except (ValueError, KeyError, TypeError) as why:
                plan = {"first_rank": run.first_rank, "ranks": [None] * run.rank_count}
                one = job.attempts[run.attempt] = Attempt(self, run.job, run.attempt, plan)
                one.set(refused=True, empty=True, text=f"{why}"[:191])
            else:
                one = job.attempts[run.attempt] = Attempt(self, run.job, run.attempt, plan)
                self.spawn(one.launch())

    async def tidy(self, job):
        """Once a second: what no keeper tells, and what the controller has recorded."""
        for number, one in list(job.attempts.items()):
            if one.plan is not NO_PLAN and one.keeper is None and not one.report.empty:
                await one.look(number <= job.forget)
            if one.report.empty and number <= job.forget and job.attempts.pop(number, None):
                await asyncio.to_thread(shutil.rmtree, one.folder, True)
        self.converge(job)

    def plan(self, m):
        """What the keeper needs to start the ranks of a RUN; ValueError says why it cannot be."""
        spec, own = json.loads(m.spec), pwd.getpwuid(os.getuid())
        run, saves = spec["run"], spec.get("checkpoint", {}).get("dir", "")
        if run.get("user", own.pw_name) != own.pw_name or not (own.pw_uid or run.get("allow_root")):
            raise ValueError(f"this agent starts ranks of {own.pw_name} alone")
        restore = restore_path(m, saves)
        logs = pathlib.Path(f"logs/job-{m.job}/attempt-{m.attempt}").resolve()
        logs.mkdir(parents=True, exist_ok=True)
        plan = {"first_rank": m.first_rank, "cookie": secrets.token_hex(16), "ranks": [],
                "workdir": run.get("workdir") or "/", "umask": int(run.get("umask") or "022", 8)}
        env = dict(HOME=own.pw_dir, USER=own.pw_name, LOGNAME=own.pw_name, SHELL=own.pw_shell,
                   PATH="/usr/local/bin:/usr/bin:/bin", OMP_NUM_THREADS="1",
                   TORCH_NCCL_ASYNC_ERROR_HANDLING="1", NCCL_ASYNC_ERROR_HANDLING="1")
        env |= {name: os.environ[name] for name in run.get("inherit_env") or ()
                if name in os.environ}
        if run.get("env_file"):
            lines = pathlib.Path(run["env_file"]).read_text().splitlines()
            env |= dict(line.split("=", 1) for line in lines if re.match(r"[^#=]+=", line))
        env |= run.get("env") or {}
        for local in range(m.rank_count):
            rank, left, place = m.first_rank + local, m.first_rank + local, {}
            sizes = {"tp": m.tensor, "cp": m.context, "pp": m.pipeline, "dp": m.data}
            for word in m.order.split("-"):
                left, place[word] = divmod(left, sizes[word])
            words = {"job": m.job_name, "attempt": m.attempt, "node": self.options.node,
                     "rank": rank, "local_rank": local, "checkpoint.dir": saves,
                     "checkpoint.path": restore, "checkpoint.step": m.restore_step}
            ours = dict(
                RANK=rank, ROLE_RANK=rank, WORLD_SIZE=m.world, ROLE_WORLD_SIZE=m.world,
                LOCAL_RANK=local, LOCAL_WORLD_SIZE=m.rank_count, GROUP_RANK=m.slot,
                GROUP_WORLD_SIZE=m.slot_count, ROLE_NAME="default", MASTER_ADDR=m.master_address,
                MASTER_PORT=m.master_port, TORCHELASTIC_RUN_ID=m.job_name,
                TORCHELASTIC_RESTART_COUNT=m.attempt, TORCHELASTIC_MAX_RESTARTS=m.attempt,
                TORCHELASTIC_USE_AGENT_STORE=False, TORCHELASTIC_ERROR_FILE=logs / f"error-{rank}",
                KEEPSTEP_CLUSTER=self.cluster_id, KEEPSTEP_NODE=self.options.node,
                KEEPSTEP_JOB=m.job_name, KEEPSTEP_JOB_ID=m.job, KEEPSTEP_ATTEMPT=m.attempt,
                KEEPSTEP_RESTORE_STEP=m.restore_step, KEEPSTEP_RESTORE_ATTEMPT=m.restore_attempt,
                KEEPSTEP_RESTORE_DIR=restore, KEEPSTEP_CHECKPOINT_DIR=saves,
                KEEPSTEP_LOG_MAX=run.get("log_max", 0), KEEPSTEP_COOKIE=plan["cookie"],
                **{f"KEEPSTEP_{word.upper()}_RANK": number for word, number in place.items()})
            plan["ranks"].append({
                "command": [fill(word, words) for word in run["command"]],
                "env": env | {key: str(value) for key, value in ours.items()},
                "output": fill(run.get("output") or str(logs / "rank-{rank}.log"), words)})
        return plan

    # ---- what others ask ----

    async def ask(self, m, session):
        """A question to a peer, for the controller."""
        self.asking.add(m.nonce)
        said, writer = P.PeerSaid(nonce=m.nonce, target=m.target, answer=P.PEER_NOTHING), None
        try:
            async with asyncio.timeout(m.timeout_ms / 1000):
                reader, writer = await asyncio.open_connection(m.address, m.port)
                said.answer = P.PEER_SILENT
                writer.write(frame(P.PeerQuestion(nonce=m.nonce, asker=self.options.node)))
                reply = await read_frame(reader, ["PeerReply"])
            if reply is None or reply.nonce != m.nonce:
                raise Refused("no reply to the question")
            said.answer = P.PEER_ANSWERS if reply.node == m.target else P.PEER_LEFT
            said.incarnation, said.controller_up = reply.incarnation, reply.controller_up
        except (ConnectionError, EOFError, Refused):
            said.answer = P.PEER_REFUSED
        except (TimeoutError, OSError):
            pass
        finally:
            self.asking.discard(m.nonce)
            if writer is not None:
                writer.close()
        if self.session is session:
            self.say(said)

    async def answer(self, reader, writer):
        """The one question of a connection on the peer port; at most 64 at a time."""
        with contextlib.suppress(Refused, OSError, EOFError, TimeoutError):
            async with self.callers, asyncio.timeout(2):
                question = await read_frame(reader, ["PeerQuestion"])
                up = self.session is not None and time.monotonic() - self.heard < 6
                writer.write(frame(P.PeerReply(nonce=question.nonce, node=self.options.node,
                                               incarnation=self.incarnation, controller_up=up)))
                await reader.read(1)
        writer.close()

    async def check(self, m):
        """Whether this node could run the job: told in time also when a mount hangs."""
        spec, result = json.loads(m.spec), P.CheckResult(nonce=m.nonce, job=m.job)
        restore = restore_path(m, spec.get("checkpoint", {}).get("dir", ""))
        script = 'ls -- "$1" && { [ -z "$2" ] || head -c 1 "$(find "$2" -type f | head -n 1)"; }'
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", script, "sh", spec.get("checkpoint", {}).get("dir") or "/", restore,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            text = (await asyncio.wait_for(child.communicate(), 3))[1].decode(errors="replace")
            result.ok = child.returncode == 0
        except TimeoutError:
            child.kill()
            text = "the storage did not answer within 3 s"
        with contextlib.suppress(OSError), socket.socket() as port:
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port.bind(("", m.port))
            result.port_free = m.port != 0
        result.text = "" if result.ok else " ".join(text.split())[:180]
        self.say(result)


def fill(text, words):
    return re.sub(r"\{([a-z_.]+)\}", lambda found: str(words.get(found[1], found[0])), text)


def restore_path(m, saves):
    return m.restore_directory or (
        f"{saves}/step-{m.restore_step}.a-{m.restore_attempt}" if m.restore_step else "")


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("node", "controller", "state", "address", "rack"):
        parser.add_argument(f"--{name}", default="")
    for name in ("peer-port", "gpus"):
        parser.add_argument(f"--{name}", type=int, default=0)
    options = parser.parse_args()
    os.makedirs(options.state, exist_ok=True)
    os.chdir(options.state)
    agent = Agent(options)
    await agent.save()
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await asyncio.start_server(agent.answer, options.address, options.peer_port)
    for one in [one for job in agent.jobs.values() for one in job.attempts.values()]:
        await one.reach()
        agent.spawn(one.follow())
    agent.spawn(agent.dial())
    agent.spawn(agent.obey())
    await over.wait()
    await agent.save(goodbye=True)
    agent.say(P.Goodbye(kind=P.GOODBYE_RESTART, text="it was asked to end"))
    if agent.session is not None:
        await agent.session.drain()


if __name__ == "__main__":
    asyncio.run(main())
