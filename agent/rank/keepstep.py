"""keepstep: what a training program may tell Keepstep, and ask it. The Python twin of keepstep.h.

Two lines are enough in a script that restores its own checkpoints:

    keepstep.step(n)                          # after each step n = 1, 2, 3 ...
    keepstep.checkpoint_done(n, path)         # rank 0, when a save of step n is durable

A whole one, with torch.distributed:

    restore = keepstep.restore_info()         # where to begin
    if restore.step:
        load(restore.directory)
    for n in range(restore.step + 1, last + 1):
        train()
        keepstep.step(n)
        word = torch.zeros(1, dtype=torch.int32)
        if rank == 0:                         # only rank 0 is asked: see keepstep.h
            word.fill_(keepstep.should_checkpoint() | keepstep.should_stop() << 1)
        torch.distributed.broadcast(word, src=0)
        if word & 1 or n % every == 0:        # every rank saves the same step
            path = f"{restore.checkpoint_directory}/step-{n}.a-{restore.attempt}"
            save(path)
            if rank == 0:
                keepstep.checkpoint_done(n, path)
        if word & 2:
            sys.exit(keepstep.EXIT_RESTART)   # a planned stop: restart me, free of charge

The first call loads libkeepstep.so.0 and attaches to the agent's mailbox. Where there is no agent
(no KEEPSTEP_MAILBOX in the environment), or no library, every call does nothing and returns
"nothing", so the same script runs anywhere. A mailbox or library that cannot be used is said once,
by warnings.warn, and then it is as without one. KEEPSTEP_LIBRARY names another library file.

Errors: ValueError for an argument that can never be right; OSError, with its errno, for what can
happen to a right call. Steps are counted from 1. Times are in seconds. Every function may be called
from any thread; none of them blocks training, but those that take a timeout.

Nothing but Python 3.9 and the library is needed.
"""

import atexit
import ctypes
import dataclasses
import errno
import os
import pathlib
import threading
import warnings

__all__ = [
    "EXIT_NEVER", "EXIT_RESTART", "Restore", "attached", "checkpoint_begin", "checkpoint_commit",
    "checkpoint_done", "checkpoint_result", "checkpoint_shard", "collective", "communicator",
    "coordinates", "exchange_get", "exchange_put", "finish", "gradient_norm", "init", "loss",
    "next_attempt", "on_abort", "parameter_hash", "phase", "restore_info", "should_checkpoint",
    "should_stop", "step", "step_begin", "step_compute", "step_end",
]

EXIT_RESTART = 75  #: always restarted, free of budget
EXIT_NEVER = 93    #: never restarted

#: what phase() takes, in the numbering of enum keepstep_phase
PHASES = ("init", "restore", "step", "checkpoint", "eval", "idle")
#: what communicator() takes, in the numbering of enum keepstep_axis
AXES = ("other", "world", "tensor", "context", "pipeline", "data")
#: what collective() takes, in the numbering of enum keepstep_operation
OPERATIONS = ("none", "other", "all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce",
              "all-to-all", "send", "receive", "barrier")
#: bits of checkpoint_commit(parts)
WEIGHTS, OPTIMIZER, SCHEDULER, DATA, RNG = 1, 2, 4, 8, 16

_LIBRARY = "libkeepstep.so.0"
_LIBDIR = ""  # filled in by `make install`
_TEXT_SIZE = 192
_VALUE_MAX = 4096
_TIMEOUT_MAX_MS = 2**32 - 1

_Abort = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Restore(ctypes.Structure):
    """struct keepstep_restore"""

    _fields_ = [(name, ctypes.c_uint32) for name in (
        "attempt", "rank", "world", "local_rank", "local_world", "tensor_rank", "context_rank",
        "pipeline_rank", "data_rank", "tensor", "context", "pipeline", "data", "master_port")] + [
        ("master_address", ctypes.c_char * 64),
        ("step", ctypes.c_uint64),
        ("checkpoint_attempt", ctypes.c_uint32),
        ("directory", ctypes.c_char * 512),
        ("checkpoint_directory", ctypes.c_char * 512),
    ]


@dataclasses.dataclass(frozen=True)
class Restore:
    """Who this rank is and where it begins. All zero and empty without an agent."""

    attempt: int = 0               #: the current one: names the folders of new checkpoints
    rank: int = 0
    world: int = 0
    local_rank: int = 0
    local_world: int = 0
    tensor_rank: int = 0           #: coordinates in the launched layout
    context_rank: int = 0
    pipeline_rank: int = 0
    data_rank: int = 0
    tensor: int = 0                #: sizes of the launched layout
    context: int = 0
    pipeline: int = 0
    data: int = 0
    master_port: int = 0
    master_address: str = ""
    step: int = 0                  #: of the checkpoint; 0: begin from the beginning
    checkpoint_attempt: int = 0    #: the attempt that wrote it
    directory: str = ""            #: to restore from; "" when step is 0
    checkpoint_directory: str = "" #: parent of new ones; "" when unknown


# ---- the library -------------------------------------------------------------------------------

_u32, _u64, _int, _text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p
_SIGNATURES = {
    "init": (), "attached": (), "finish": (), "phase": (_int,),
    "step_begin": (_u64,), "step_end": (_u64,), "step": (_u64,), "step_compute": (_u64,),
    "coordinates": (_u32, _u32, _u32, _u32),
    "loss": (_u64, ctypes.c_double), "gradient_norm": (_u64, ctypes.c_double),
    "parameter_hash": (_u64, _u64),
    "communicator": (_text, _int), "collective": (_int, _u64, _u64, _int, ctypes.c_int32),
    "on_abort": (_Abort, ctypes.c_void_p),
    "should_checkpoint": (), "should_stop": (),
    "checkpoint_begin": (_u64, _u32), "checkpoint_shard": (_text, _u64, _text),
    "checkpoint_commit": (_text, _text, _u32), "checkpoint_result": (_u32, ctypes.c_char_p),
    "checkpoint_done": (_u64, _text),
    "restore_info": (ctypes.POINTER(_Restore),),
    "next_attempt": (_u32, ctypes.POINTER(_Restore)),
    "exchange_put": (_text, ctypes.c_char_p, ctypes.c_size_t),
    "exchange_get": (_text, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t),
                     _u32),
}


def _candidates():
    named = os.environ.get("KEEPSTEP_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    beside = [here / _LIBRARY, here.parent.parent.parent / "lib" / _LIBRARY]
    installed = [pathlib.Path(_LIBDIR) / _LIBRARY] if _LIBDIR else []
    return [str(path) for path in installed + beside if path.exists()] + [_LIBRARY]


def _load():
    """The functions of the library by their short names, or None; says what is wrong with it."""
    trouble = "it is not installed"
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            functions = {}
            for name, arguments in _SIGNATURES.items():
                function = getattr(library, "keepstep_" + name)
                function.argtypes = arguments
                function.restype = None if name == "finish" else ctypes.c_int
                functions[name] = function
            return functions
        except (OSError, AttributeError) as error:
            trouble = str(error)
    warnings.warn(f"keepstep: {_LIBRARY} cannot be used, going on without it: {trouble}",
                  RuntimeWarning, stacklevel=4)
    return None


class _State:
    """One attachment of this process, made by the first call."""

    def __init__(self):
        self.lock = threading.Lock()
        self.looked = False
        self.functions = None
        # Kept until the library has detached: a thread of it may be on its way into any of them.
        self.callbacks = []

    def attach(self):
        """The functions when there is an agent, else None."""
        if self.looked:
            return self.functions
        with self.lock:
            if not self.looked:
                if os.environ.get("KEEPSTEP_MAILBOX"):
                    self.functions = self._attach()
                self.looked = True
        return self.functions

    @staticmethod
    def _attach():
        functions = _load()
        result = functions["init"]() if functions else 0
        if result < 0:
            warnings.warn("keepstep: the agent's mailbox cannot be used, going on without it: "
                          + os.strerror(-result), RuntimeWarning, stacklevel=5)
            return None
        return functions


_state = _State()


def _forked():
    # A lock that another thread held at the fork would never be released in the child.
    _state.lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def _checked(result, what):
    if result >= 0:
        return result
    if result == -errno.EINVAL:
        raise ValueError(f"keepstep.{what}: invalid argument, or called out of order")
    raise OSError(-result, f"keepstep.{what}: {os.strerror(-result)}")


def _call(name, *arguments, without=0):
    functions = _state.attach()
    if functions is None:
        return without
    return _checked(functions[name](*arguments), name)


def _unsigned(value, bits, what):
    value = int(value)
    if not 0 <= value < 1 << bits:
        raise ValueError(f"keepstep.{what}: {value} is not from 0 to 2^{bits} - 1")
    return value


def _milliseconds(seconds):
    return round(max(0, min(_TIMEOUT_MAX_MS, seconds * 1000)))


def _bytes(text):
    return os.fsencode(text)


def _number(words, word, what):
    try:
        return words.index(word)
    except ValueError:
        raise ValueError(f"keepstep.{what}: {word!r} is none of {', '.join(words)}") from None


# ---- attaching ---------------------------------------------------------------------------------


def init():
    """Attaches to the agent now, and not with the first other call: says that the program lives,
    phase "init". Returns attached()."""
    return attached()


def attached():
    """True when an agent started this program and its mailbox is in use."""
    functions = _state.attach()
    return functions is not None and functions["attached"]() == 1


def finish():
    """Says that the program is done (its exit code still decides) and detaches; what is called
    afterwards attaches again. Waits for a callback of on_abort() that is under way."""
    with _state.lock:
        functions, _state.functions, _state.looked = _state.functions, None, False
    if functions is not None:
        functions["finish"]()
        _state.callbacks.clear()


# ---- progress ----------------------------------------------------------------------------------


def phase(name):
    """What the program is doing now, one of PHASES; each has its own limit for hanging. step() and
    step_begin() set "step" by themselves, checkpoint_begin() sets "checkpoint". ValueError."""
    _call("phase", _number(PHASES, name, "phase"))


def step(n):
    """Step n is complete, and n + 1 begins. ValueError: n is not a step."""
    _call("step", _unsigned(n, 62, "step"))


def step_begin(n):
    """Step n begins: for programs that do other things between their steps. ValueError."""
    _call("step_begin", _unsigned(n, 62, "step_begin"))


def step_end(n):
    """Step n is complete. ValueError."""
    _call("step_end", _unsigned(n, 62, "step_end"))


def step_compute(seconds):
    """Compute time of the step under way, device time on a GPU, without waiting for others; before
    its step_end() or step(). Finds stragglers."""
    _call("step_compute", _unsigned(max(0, round(seconds * 1e6)), 64, "step_compute"))


def coordinates(tensor=0, context=0, pipeline=0, data=0):
    """The coordinates that the program computed for this rank; a difference to the layout of the
    job file is shown as condition LayoutMismatch."""
    _call("coordinates", *(_unsigned(one, 32, "coordinates")
                           for one in (tensor, context, pipeline, data)))


# ---- what finds a sick rank --------------------------------------------------------------------


def loss(n, value):
    """Loss of step n: before its end, or up to 31 steps later. Also one that is no number."""
    _call("loss", _unsigned(n, 62, "loss"), float(value))


def gradient_norm(n, value):
    """Norm of the gradient of step n; as loss()."""
    _call("gradient_norm", _unsigned(n, 62, "gradient_norm"), float(value))


def parameter_hash(n, value):
    """A hash (an int; its low 64 bits count) of this rank's parameters after step n, taken when the
    ranks of a data parallel group must hold the same ones. One that differs is silent corruption."""
    _call("parameter_hash", _unsigned(n, 62, "parameter_hash"), int(value) & (1 << 64) - 1)


def communicator(name, axis="other"):
    """Makes a communicator known: name of 1 to 15 characters of ASCII, axis one of AXES: it joins
    the ranks that differ in that coordinate alone. Returns its number for collective().
    ValueError; OSError ENOSPC: more than 16."""
    return _call("communicator", name.encode(), _number(AXES, axis, "communicator"))


def collective(number, enqueued, completed, operation="other", peer=-1):
    """How far a communicator has come: operations enqueued and completed since it was made, the
    oldest one that is not complete (one of OPERATIONS), and of a send or receive the peer's rank in
    it. Only the newest call counts. When a job stands still, this names the rank that the others
    wait for. ValueError."""
    _call("collective", number, _unsigned(enqueued, 62, "collective"),
          _unsigned(completed, 62, "collective"), _number(OPERATIONS, operation, "collective"),
          peer)


# ---- ending what hangs -------------------------------------------------------------------------


def on_abort(function):
    """function() is called once, by a thread of the library, as soon as this attempt is over: a
    newer one is ordered, or another rank failed and this one may be stuck in a collective that will
    never end. Meant for torch.distributed's abort of a process group, or os._exit. An exception of
    it is printed. None: no function any more. OSError EAGAIN: no thread could be made."""
    functions = _state.attach()
    if functions is None:
        return
    callback = _Abort(lambda _: function()) if function is not None else _Abort()
    _state.callbacks.append(callback)
    _checked(functions["on_abort"](callback, None), "on_abort")


@atexit.register
def _no_callback_at_exit():
    # An interpreter that is being taken down must not be called into.
    if _state.functions is not None and _state.callbacks:
        _state.functions["on_abort"](_Abort(), None)


# ---- requests: on global rank 0; pass the answer on in a collective of the same step -------------


def should_checkpoint():
    """True: save at this step boundary. On global rank 0 only: always False on others. Stays True
    until checkpoint_begin() or checkpoint_done() there."""
    return _call("should_checkpoint") == 1


def should_stop():
    """True, on global rank 0: stop in good order. When should_checkpoint() is True as well, save
    first; then end with EXIT_RESTART."""
    return _call("should_stop") == 1


# ---- checkpoints -------------------------------------------------------------------------------


def checkpoint_done(n, path):
    """A save of step n is durable under this absolute path, a file or a folder: the short form for
    programs that save by themselves. On rank 0; what others say is ignored. ValueError: no absolute
    path, or one of 512 bytes or more."""
    if _state.attach() is not None and restore_info().rank != 0:
        return
    _call("checkpoint_done", _unsigned(n, 62, "checkpoint_done"), _bytes(path))


def checkpoint_begin(n, shard_count=0):
    """Every rank, before it writes: a save of step n, of shard_count shards in all."""
    _call("checkpoint_begin", _unsigned(n, 62, "checkpoint_begin"),
          _unsigned(shard_count, 32, "checkpoint_begin"))


def checkpoint_shard(path, size, xxh3=None):
    """One shard is durable under its final absolute path; size in bytes, xxh3: 32 lower-case hex
    digits of XXH3-128, or None. ValueError: no begin before, or a bad argument."""
    _call("checkpoint_shard", _bytes(path), _unsigned(size, 63, "checkpoint_shard"),
          None if xxh3 is None else xxh3.encode())


def checkpoint_commit(directory, xxh3=None, parts=0):
    """Rank 0, when all shards and the manifest are durable in this folder, step-S.a-A and never
    used before; xxh3 of the manifest; parts: WEIGHTS | OPTIMIZER ... Posts and returns; see
    checkpoint_result(). ValueError."""
    _call("checkpoint_commit", _bytes(directory), None if xxh3 is None else xxh3.encode(),
          _unsigned(parts, 32, "checkpoint_commit"))


def checkpoint_result(timeout=0.0):
    """What became of the last commit: True accepted, None no answer within the timeout (seconds; 0:
    just look). OSError ESTALE: refused, its text says why; ENOENT: there was no commit. Without an
    agent: True."""
    functions = _state.attach()
    if functions is None:
        return True
    text = ctypes.create_string_buffer(_TEXT_SIZE)
    result = functions["checkpoint_result"](_milliseconds(timeout), text)
    if result == -errno.ESTALE:
        raise OSError(errno.ESTALE, text.value.decode(errors="replace") or "refused")
    return True if _checked(result, "checkpoint_result") == 1 else None


# ---- attempts ----------------------------------------------------------------------------------


def _restore(raw):
    values = {}
    for field in dataclasses.fields(Restore):
        value = getattr(raw, field.name)
        values[field.name] = os.fsdecode(value) if isinstance(value, bytes) else value
    return Restore(**values)


def restore_info():
    """Who this rank is and where it begins, a Restore. OSError EAGAIN: the agent is just writing it;
    again later."""
    raw = _Restore()
    _call("restore_info", ctypes.byref(raw))
    return _restore(raw)


def next_attempt(timeout):
    """For programs that stay alive over a recovery: waits up to `timeout` seconds for an attempt
    above the current one, makes it current (call it only after communicators are aborted and the
    device is synchronised) and returns its Restore; None at the timeout, at once without an agent."""
    raw = _Restore()
    found = _call("next_attempt", _milliseconds(timeout), ctypes.byref(raw))
    return _restore(raw) if found == 1 else None


# ---- keys between the ranks of one attempt -----------------------------------------------------


def exchange_put(key, value):
    """Gives `value` (bytes, at most 4096) to all ranks of this attempt under `key` (1 to 63 printable
    characters). OSError EEXIST: another value is under this key; ENOSPC: more than 16 keys;
    EMSGSIZE. ValueError: the key."""
    value = bytes(value)
    _call("exchange_put", key.encode(), value, len(value))


def exchange_get(key, timeout):
    """The value that any rank of this attempt puts under `key`, bytes; waits up to `timeout` seconds
    for it. TimeoutError: not yet, ask again. OSError EBUSY: 16 others are waited for; ENOTCONN: no
    agent. ValueError: the key."""
    value = ctypes.create_string_buffer(_VALUE_MAX)
    size = ctypes.c_size_t()
    if _state.attach() is None:
        raise OSError(errno.ENOTCONN, "keepstep.exchange_get: no agent started this program")
    _call("exchange_get", key.encode(), value, _VALUE_MAX, ctypes.byref(size),
          _milliseconds(timeout))
    return value.raw[:size.value]
