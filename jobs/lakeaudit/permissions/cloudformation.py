"""Write a CloudFormation template with the role, the results bucket and the steps that no stack can take. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakeaudit.config import Lake
from lakeaudit.evidence.registry import EVENTS, STORAGE
from lakeaudit.grants import SetupStep
from lakeaudit.permissions.policies import is_of_aws
from lakeaudit.runtime.connections.aws import Clients

CREATE, CREATES = "CreateResultsBucket", "CreatesResultsBucket"
"""The names of the parameter and of the condition."""
_TRUSTED = r"^arn:[a-z0-9-]+:(iam|sts)::[0-9]{12}:.+$"
_NONCURRENT_DAYS, _UPLOAD_DAYS = 30, 7


def template(
    name: str,
    task: str,
    policy: Mapping[str, Any],
    bucket: str | None,
    steps: Iterable[SetupStep],
    notes: Sequence[str],
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the template.

    Args:
        name: the lake or location.
        task: audit, follow, guard, reconcile or scan.
        policy: the policy of the role.
        bucket: the name of the results bucket that the stack creates; None: none.
        steps: what a person has to set up, since a stack cannot change an existing bucket or trail.
        notes: what the policy does not cover.
        more: further resources by their names.
    """
    about = f"Role of lakeaudit for {task}. Metadata lists the steps that a stack cannot take, and what is not covered."
    by_hand = [{"What": each.what, "Command": each.command} for each in steps]
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": about,
        "Metadata": {"For": name, "Steps": by_hand, "NotCovered": [*notes]},
        "Parameters": _parameters(bucket),
        **({"Conditions": {CREATES: {"Fn::Equals": [{"Ref": CREATE}, "yes"]}}} if bucket else {}),
        "Resources": {
            "Role": _role(task, policy),
            **({"ResultsBucket": _results_bucket(bucket)} if bucket else {}),
            **(more or {}),
        },
        "Outputs": {"RoleArn": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}}},
    }


def results_bucket(lake: Lake, clients: Clients) -> str | None:
    """Return the bucket of the results if it is in AWS and contains no other place of the lake."""
    results = lake.results
    places = [table.location for table in (*lake.tables, *lake.watched)]
    places += [place for each in lake.discoveries for place in each.plain_places]
    places += [place for place in lake.own_places if place != results]
    places += [source.location for source in lake.inventories]
    used = {place.bucket for place in places}
    return None if results.bucket in used or not is_of_aws(results, clients) else results.bucket


def setup_steps(lake: Lake) -> Iterator[SetupStep]:
    """Yield the steps of all inventories and records of requests."""
    for source in lake.inventories:
        yield from STORAGE[source.kind].setup(source, lake)
    for each in lake.events:
        yield from EVENTS[each.kind].setup(each, lake)


def unnamed_buckets(lake: Lake) -> Iterator[str]:
    """Yield notes about tables in buckets that the lake file does not name, for which there are no steps."""
    for place in (place for each in lake.discoveries for place in each.patterns):
        yield f"the steps leave out the buckets that match {place.uri}: take them for each of these buckets"
    for name in (store.name for each in lake.catalog_discoveries for _, store in each.stores):
        yield f"the steps leave out the buckets of the tables in catalog {name}: take them for each of these buckets"


def _parameters(bucket: str | None) -> dict[str, Any]:
    trusted = {
        "Type": "String",
        "Description": "ARN of the role or user that may assume the role",
        "AllowedPattern": _TRUSTED,
    }
    create = {
        "Type": "String",
        "Default": "yes",
        "AllowedValues": ["yes", "no"],
        "Description": f"no: the bucket {bucket} exists already",
    }
    return {"TrustedPrincipal": trusted, **({CREATE: create} if bucket else {})}


def _role(task: str, policy: Mapping[str, Any]) -> dict[str, Any]:
    trust = {"Effect": "Allow", "Principal": {"AWS": {"Ref": "TrustedPrincipal"}}, "Action": "sts:AssumeRole"}
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]},
            "Policies": [{"PolicyName": f"lakeaudit-{task}", "PolicyDocument": policy}],
        },
    }


def _results_bucket(name: str) -> dict[str, Any]:
    encryption = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    expiry = {
        "Id": "RemoveOldVersions",
        "Status": "Enabled",
        "NoncurrentVersionExpiration": {"NoncurrentDays": _NONCURRENT_DAYS},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": _UPLOAD_DAYS},
    }
    blocked = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    return {
        "Type": "AWS::S3::Bucket",
        "Condition": CREATES,
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "BucketName": name,
            "VersioningConfiguration": {"Status": "Enabled"},
            "BucketEncryption": {"ServerSideEncryptionConfiguration": [encryption]},
            "PublicAccessBlockConfiguration": dict.fromkeys(blocked, True),
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "LifecycleConfiguration": {"Rules": [expiry]},
        },
    }
