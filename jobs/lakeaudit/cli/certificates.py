"""Define the commands that write and verify certificates."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lakeaudit.cli.frame import app, finish, load, load_with_status, now, progress, results_of, say
from lakeaudit.cli.options import LakeFile, Status

if TYPE_CHECKING:
    from lakeaudit.config import Lake

certificate = typer.Typer(
    rich_markup_mode=None,
    help="Write certificates of audits, and verify them.\n\nA certificate states that an audit judged every file and "
    "that no file is lost, and lists the evidence.",
)
app.add_typer(certificate, name="certificate")

Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Path or s3:// URI to write; default: certificate.json. The public key is written to FILE.pub.",
    ),
]
InResults = Annotated[bool, typer.Option("--in-results", help="Write to the results location instead of -o.")]


@certificate.command()
def write(
    lake: LakeFile,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="PEM",
            help="File of the private key (Ed25519 or ECDSA P-256, PKCS#8). Default: the key in the variable "
            "LAKEAUDIT_CERTIFICATE_KEY. Without a key the certificate is not signed. "
            "LAKEAUDIT_CERTIFICATE_KEY_PASSWORD is the password of an encrypted key.",
        ),
    ] = None,
    output: Output = None,
    in_results: InResults = False,
    status_file: Status = None,
) -> int:
    """Certify the last published run.

    If an audit did not judge every file, or a file is lost, the command prints the reasons, writes nothing and exits
    with 1.
    """
    return write_certificate(lake, key, output, status_file, in_results=in_results)


def write_certificate(
    lake: str, key_file: str | None, output: str | None, status_file: str | None, *, in_results: bool
) -> int:
    """Write the certificate of the last published run, or print the reasons against it; return the exit code."""
    from lakeaudit.commands.certificate import build_certificate
    from lakeaudit.commands.certificate_keys import BESIDE, key_to_sign
    from lakeaudit.commands.status import open_status, write_whole

    with open_status(status_file, "certificate") as status:
        loaded = load_with_status(lake, status)
        key = key_to_sign(key_file, os.environ)
        content, lines = build_certificate(loaded, results_of(loaded), now(), key)
        if content is None:
            reasons = f": {len(lines)} reasons" if len(lines) > 1 else ""
            verdict = f"CRITICAL: no certificate{reasons}"
            status.end("certificate", 1, verdict)
            return say("\n".join([*lines, verdict]), 1)
        name = _output_name(loaded, output, in_results=in_results)
        if key is not None:
            write_whole(name + BESIDE, key.public.pem(), status.clients, f"the public key {name}{BESIDE}")
        write_whole(name, content, status.clients, f"the certificate {name}")
        typer.echo(name)
        status.end("certificate", 0, lines[0])
    return finish(lines[0])


def _output_name(lake: "Lake", output: str | None, *, in_results: bool) -> str:
    name = "certificate.json"
    return lake.results.join(name).path_or_uri if in_results else output or name


@certificate.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Path or s3:// URI of the certificate.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="PEM",
            help="File of a public key that you trust, or a folder of such files (*.pem, *.pub); repeatable. Default: "
            "the key in FILE.pub, which proves that the file is intact, but not who signed it.",
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="LAKE",
            help="Also audit the same evidence again with this lake file, publish nothing, and compare the tallies.",
        ),
    ] = None,
) -> int:
    """Verify a certificate.

    The exit code is 1 if the certificate was changed or a replay gives other tallies; else 3 if something cannot be
    decided, because the key is not known, the certificate is not signed, the evidence is not there any more or the
    rules are of another version; and else 0.
    """
    from lakeaudit.certificate.verification import exit_code
    from lakeaudit.commands import verify_certificate as command
    from lakeaudit.commands.certificate_keys import trusted_keys
    from lakeaudit.runtime.connections.aws import Clients
    from lakeaudit.runtime.connections.endpoints import clients_of

    lake = load(replay) if replay is not None else None
    keys = trusted_keys(key or (), str(file))
    verified = command.verify(file, keys, Clients() if lake is None else clients_of(lake))
    if lake is not None and verified.content is not None:
        from lakeaudit.commands.replay_certificate import replayed

        verified = verified.with_checks(replayed(lake, verified.content, progress()))
    verdict = command.write(file, verified, sys.stdout)
    return say(verdict, exit_code(verified.checks))
