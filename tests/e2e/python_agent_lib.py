"""python_agent_lib.py: what the tests of the agent in Python (tests/lib/python_agent.py) share."""

import os
import shutil
import subprocess
import sys

from cluster_lib import ROOT, build_dir

PYTHON = "/usr/bin/python3"  # Debian's: it has the protobuf package
GENERATED = build_dir() / "gen" / "python"
LIB = ROOT / "tests" / "lib"


def has_protobuf():
    try:
        import google.protobuf
        return bool(google.protobuf.__version__)
    except ImportError:
        return False


def prepare():
    """Makes keepstep_pb2 and puts it on the path; says what is missing, if something is."""
    if not has_protobuf() or shutil.which("protoc") is None:
        if sys.executable != PYTHON and os.path.exists(PYTHON):
            os.execv(PYTHON, [PYTHON, *sys.argv])
        return "no python3-protobuf, or no protobuf-compiler"
    GENERATED.mkdir(parents=True, exist_ok=True)
    subprocess.run(["protoc", f"--proto_path={ROOT}/proto", f"--python_out={GENERATED}",
                    "keepstep.proto"], check=True)
    sys.path += [str(GENERATED), str(LIB)]
    return None


def start_agent(state, node, controller, peer_port, rack, gpus, log):
    state.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, str(LIB / "python_agent.py"), "--node", node, "--state", str(state),
             "--controller", controller, "--address", "127.0.0.1", "--peer-port", str(peer_port),
             "--rack", rack, "--gpus", str(gpus)],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(GENERATED)})
