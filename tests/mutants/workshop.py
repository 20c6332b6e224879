"""workshop.py: where mutants are made.

The sources are copied once, so that a run of an hour does not see what is edited meanwhile. The
cores and base are linked into one shared library, libcores.so, and each test program is linked
against it once: a mutant costs one object and that library. Each lane has sources and libraries of
its own. What make would run to compile a file is asked of make.

    build/mutants/tree        the sources; plain/ and asan/ in it: objects, test programs, and the
                              good library, of each build
    build/mutants/laneN       the sources of the cores, one of them broken; its libraries"""

import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOMS = ("controller/core", "agent/core")
UNDER_TEST = ("core", "agent_core", "base")  # archives of the Makefile that libcores.so is made of
SOURCES = (*ROOMS, "proto/base")
LIBRARY = "libcores.so"
FLAGS = ("CFLAGS=-O1 -g0 -fPIC", "CUDA=no", "CC=gcc", "WERROR=0")
# What each build adds. A read one past the end shows with sanitizers only, as in `make test`.
BUILDS = {"plain": "", "asan": "address,undefined"}


def sha(*parts):
    """Of texts and bytes, one after the other; short, as a name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


def run(command, folder):
    """(exit status, output) of a compiler or of make."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, env=environment)
    return done.returncode, done.stdout


def must(command, folder):
    code, output = run(command, folder)
    if code != 0:
        sys.exit(f"mutants.py: the unchanged tree does not build:\n{output}")
    return output


def sync(source, target, names):
    """Makes `target` hold those files as they are in `source`, and nothing else but its builds."""
    wanted = set(names)
    for path in target.rglob("*"):
        name = path.relative_to(target).as_posix()
        if path.is_file() and name.partition("/")[0] not in BUILDS and name not in wanted:
            path.unlink()
    for name in names:
        path = target / name
        data = (source / name).read_bytes()
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            shutil.copymode(source / name, path)


def listed(root):
    """The files of the project, also those that are not yet committed."""
    if (root / ".git").exists():
        output = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "-co",
                                 "--exclude-standard"], stdout=subprocess.PIPE, check=True).stdout
        names = output.decode().split("\0")
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*")
                 if not path.relative_to(root).as_posix().startswith("build/")]
    return sorted({name for name in names if name and (root / name).is_file()})


class Tree:
    """The unchanged sources."""

    def __init__(self, root, base):
        self.folder = base / "tree"
        self.folder.mkdir(parents=True, exist_ok=True)
        names = listed(root)
        sync(root, self.folder, names)
        self.sources = [name for name in names if name.rpartition("/")[0] in SOURCES]

    def print(self):
        """Changes when anything does that a mutant is compiled from."""
        return sha(" ".join(FLAGS), *[part for name in self.sources
                                      for part in (name, (self.folder / name).read_bytes())])


class Build:
    """What is built of the unchanged sources in one way."""

    def __init__(self, tree, name):
        self.tree = tree
        self.name = name
        self.folder = tree.folder / name
        self.flags = (*FLAGS, f"BUILD={name}", f"SAN={BUILDS[name]}")
        self.sanitize = [f"-fsanitize={BUILDS[name]}"] if BUILDS[name] else []

    def program(self, name):
        return self.folder / "mutants" / name

    def objects(self, archive):
        """Of an archive, as the Makefile has them."""
        return (self.folder / "lib" / f"{archive}.list").read_text().split()

    def build_all(self, programs):
        """programs: {name: (sources, archives)} to be linked against the library."""
        archives = sorted({archive for _, needed in programs.values() for archive in needed})
        objects = sorted({f"{self.name}/obj/{source[:-2]}.o" for sources, _ in programs.values()
                          for source in sources})
        jobs = len(os.sched_getaffinity(0))
        must(["make", "-s", "--no-print-directory", f"-j{jobs}", *self.flags,
              *[f"{self.name}/lib/{one}.a" for one in (*UNDER_TEST, *archives)], *objects],
             self.tree.folder)
        self.link(self.folder / LIBRARY, {})
        for name, (sources, needed) in programs.items():
            target = self.program(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            must(["gcc", "-pthread", *self.sanitize, "-o", str(target),
                  *[f"{self.name}/obj/{source[:-2]}.o" for source in sources],
                  "-Wl,--start-group", *[f"{self.name}/lib/{one}.a" for one in needed],
                  "-Wl,--end-group", f"-L{self.name}", "-lcores", "-lcmocka", "-lm"],
                 self.tree.folder)

    def link(self, target, instead):
        """The library; instead: {object: path of another one}."""
        objects = [instead.get(one, one) for archive in UNDER_TEST for one in self.objects(archive)]
        must(["gcc", "-shared", "-pthread", "-Wl,-Bsymbolic", *self.sanitize, "-o", str(target),
              *objects], self.tree.folder)

    def compiler(self, path):
        """What make runs for this file, without its warnings."""
        output = must(["make", "-n", "--no-print-directory", *self.flags, "-W", path,
                       f"{self.name}/obj/{path[:-2]}.o"], self.tree.folder)
        line = next(one for one in output.replace("\\\n", " ").splitlines()
                    if re.search(r" -c -o \S+ \S+$", one))
        words = [word for word in shlex.split(line) if not re.match(r"-W[^l]|-M", word)]
        return [*words[:words.index("-o")], "-w"]


class Lane:
    """Makes one mutant after the other."""

    def __init__(self, tree, base, number):
        self.folder = base / f"lane{number}"
        self.folder.mkdir(parents=True, exist_ok=True)
        sync(tree.folder, self.folder, tree.sources)
        self.commands = {}

    def library(self, build):
        """The folder of the mutant's library."""
        return self.folder / build.name

    def make(self, build, path, source):
        """The library of the mutant. None; "equivalent" to the good one; or what gcc objects to."""
        target = self.folder / path
        whole = target.read_text()
        target.write_text(source)
        command = self.commands.get((build.name, path)) or build.compiler(path)
        self.commands[build.name, path] = command
        self.library(build).mkdir(exist_ok=True)
        made = self.library(build) / "mutant.o"
        try:
            code, output = run([*command, "-o", str(made), path], self.folder)
        finally:
            target.write_text(whole)
        if code != 0:
            wrong = [line for line in output.splitlines() if "error" in line]
            return (wrong or ["the compiler fails"])[0][:200]
        good = f"{build.name}/obj/{path[:-2]}.o"
        build.link(self.library(build) / LIBRARY, {good: str(made)})
        same = made.read_bytes() == (build.tree.folder / good).read_bytes()
        return "equivalent" if same else None
