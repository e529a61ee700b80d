"""A program `aws` for scripts under test: it sends the requests of the AWS CLI to the tests' own server by boto3."""

import stat
import sys
from pathlib import Path

PROGRAM = """#!{python}
import json, re, sys
import boto3
service, operation, *options = sys.argv[1:]
given, region = {{}}, "us-east-1"
while options:
    name, value = options.pop(0), options.pop(0)
    value = open(value[7:]).read() if value.startswith("file://") else value
    if name == "--region":
        region = value
    elif name == "--cli-input-json":
        given |= json.loads(value)
    else:
        name = "".join(word.capitalize() for word in name[2:].split("-"))
        given[name] = json.loads(value) if value.lstrip().startswith("{{") else value
client = boto3.client(service.replace("s3api", "s3"), endpoint_url="{endpoint}", region_name=region)
answer = getattr(client, operation.replace("-", "_"))(**given)
answer.pop("ResponseMetadata")
if answer:
    print(json.dumps(answer, default=str))
"""


def write_aws(folder: Path, endpoint: str) -> Path:
    """Write the program into a folder, which then has to come first in PATH."""
    folder.mkdir(exist_ok=True)
    program = folder / "aws"
    program.write_text(PROGRAM.format(python=sys.executable, endpoint=endpoint))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder
