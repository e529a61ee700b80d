"""A bare Debian in a folder, and the steps of a Containerfile executed in it: needs root and debootstrap, no engine."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pytest

from tests.builders.containerfile import ROOT, Stage, Step

Done = subprocess.CompletedProcess[str]
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
NETWORK = (
    "PIP_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "no_proxy",
)
"""What a build takes of this machine's settings, as an engine passes its own."""
_SHELL = """
set -e
tree=$1 user=$2 folder=$3 writable=$4; shift 4
if [ "$writable" = no ]; then
    mount --bind "$tree" "$tree"
    mount -o remount,bind,ro "$tree"
    mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
fi
mount -t proc proc "$tree/proc"
exec chroot --userspec="$user" "$tree" /usr/bin/env -C "$folder" "$@"
"""


def bare_debian(folder: Path) -> Path:
    """A tree like the base image: the same Debian and the same version of Python, from Debian's packages."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.fail("needs root and debootstrap: apt-get install debootstrap")
    line = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", "bookworm", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return folder


def copy_of(tree: Path, folder: Path) -> Path:
    subprocess.run(["cp", "--archive", "--reflink=auto", str(tree), str(folder)], check=True)
    return folder


@dataclass(frozen=True)
class Image:
    """A tree with the settings of the image's last stage."""

    tree: Path
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    folder: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()

    def run(self, *line: str, writable: bool = False) -> Done:
        """Run the image's command with these words, as a container with a read-only root and a scratch folder does."""
        return self.execute([*self.entrypoint, *line], writable=writable)

    def execute(
        self, line: Sequence[str], env: Mapping[str, str] | None = None, *, writable: bool = False
    ) -> Done:
        """Run a program in the tree, with other mounts and processes than this machine's."""
        given = [str(self.tree), self.user, self.folder, "yes" if writable else "no"]
        pairs = [f"{name}={value}" for name, value in {**self.env, **(env or {})}.items()]
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _SHELL, "sh"]
        return subprocess.run(
            [*isolated, *given, "-i", *pairs, *line], capture_output=True, text=True, check=False, timeout=900
        )


def build(base: Path, stages: Sequence[Stage], folder: Path, arguments: Mapping[str, str]) -> Image:
    """Execute the steps of all stages, each in a copy of the base; return the last one."""
    made: dict[str, Image] = {}
    image = Image(base)
    for stage in stages:
        image = Image(copy_of(base, folder / f"stage-{len(made)}"))
        known: dict[str, str] = {}
        for step in stage.steps:
            if step.name == "ARG":
                known |= {name: arguments.get(name, value) for name, value in step.pairs.items()}
            elif step.name == "RUN":
                _run(image, step.text, known)
            elif step.name == "COPY":
                origin, sources, target = step.copied
                _copy(made[origin].tree if origin else ROOT, sources, image, target)
            elif step.name == "WORKDIR":
                (image.tree / step.text.lstrip("/")).mkdir(exist_ok=True, parents=True)
            image = _with(image, step)
        made[stage.name] = image
    return image


def _with(image: Image, step: Step) -> Image:
    if step.name == "ENV":
        return replace(image, env={**image.env, **step.pairs})
    if step.name == "ENTRYPOINT":
        return replace(image, entrypoint=tuple(step.arguments))
    if step.name == "WORKDIR":
        return replace(image, folder=step.text)
    return replace(image, user=step.text) if step.name == "USER" else image


def _run(image: Image, text: str, known: Mapping[str, str]) -> None:
    """With the certificates and the index of this machine, which are removed again."""
    certificates = image.tree / "run" / "certificates.pem"
    shutil.copyfile(CERTIFICATES, certificates)
    named = dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT"), "/run/certificates.pem")
    network = {name: os.environ[name] for name in NETWORK if name in os.environ}
    done = image.execute(["/bin/sh", "-c", text], {**named, **network, **known}, writable=True)
    certificates.unlink()
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"


def _copy(origin: Path, sources: Sequence[str], image: Image, target: str) -> None:
    """As COPY does: the content of a folder into the target, files into a target that ends in `/`."""
    to = image.tree / PurePosixPath(image.folder, target).relative_to("/")
    to.mkdir(parents=True, exist_ok=True)
    for source in sources:
        path = origin / source.lstrip("/")
        assert path.is_dir() or target.endswith("/"), "not needed so far: a file as the target"
        subprocess.run(["cp", "--archive", f"{path}/." if path.is_dir() else str(path), str(to)], check=True)
