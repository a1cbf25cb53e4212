"""The requests of the table of profiles that take more than a line."""

import hashlib
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from hermes.agent.v1 import (
    approval_pb2,
    curation_pb2,
    memory_pb2,
    turn_event_pb2,
    turn_pb2,
    usage_pb2,
)
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import Origin
from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2
from hermes.gateway.v1 import conversation_pb2, delivery_pb2
from hermes.scheduler.v1 import job_file_pb2, job_pb2
from tests.security.households import BOB, Things

AGES = curation_pb2.SkillAges(
    stale_after=Duration(seconds=86_400), archive_after=Duration(seconds=86_400)
)


def archive(things: Things) -> Sequence[Message]:
    header = file_pb2.UploadArchiveRequest.Header(
        lease=things.lease, profile=BOB, path="/workspace/x", length_bytes=1, sha256=b"0" * 32
    )
    chunk = file_pb2.UploadArchiveRequest(chunk=b"x")
    return [file_pb2.UploadArchiveRequest(header=header), chunk]


def upload(things: Things) -> Sequence[Message]:
    digest = hashlib.sha256(b"x").digest()
    header = file_pb2.UploadFileRequest.Header(
        lease=things.lease, profile=BOB, path="/workspace/note", length_bytes=1, sha256=digest
    )
    return [file_pb2.UploadFileRequest(header=header), file_pb2.UploadFileRequest(chunk=b"x")]


def attachment(things: Things) -> Sequence[Message]:
    header = delivery_pb2.UploadAttachmentRequest.Header(
        delivery_id=things.delivery,
        profile=BOB,
        length_bytes=1,
        sha256=hashlib.sha256(b"x").digest(),
    )
    chunk = delivery_pb2.UploadAttachmentRequest(chunk=b"x")
    return [delivery_pb2.UploadAttachmentRequest(header=header), chunk]


def attach(things: Things) -> Sequence[Message]:
    opening = exec_pb2.AttachExecRequest.Open(lease=things.lease, profile=BOB, exec_id=things.exec)
    return [exec_pb2.AttachExecRequest(open=opening)]


def start(things: Things) -> Message:
    return exec_pb2.StartExecRequest(
        lease=things.lease, profile=BOB, exec_id="exec-of-bob", argv=exec_pb2.Argv(arguments=["id"])
    )


def converse(things: Things) -> Sequence[Message]:
    opening = conversation_pb2.ConverseRequest.Open(profile=BOB, session_id=things.session)
    return [conversation_pb2.ConverseRequest(open=opening)]


def _own_conversation(request: conversation_pb2.ConverseRequest) -> Sequence[Message]:
    opening = conversation_pb2.ConverseRequest.Open(profile=BOB)
    return [conversation_pb2.ConverseRequest(open=opening), request]


def converse_deciding(things: Things) -> Sequence[Message]:
    answer = conversation_pb2.ConverseRequest.ApprovalAnswer(
        approval_id=things.approval, decision=turn_event_pb2.APPROVAL_DECISION_ONCE
    )
    return _own_conversation(conversation_pb2.ConverseRequest(approval_answer=answer))


def converse_answering(things: Things) -> Sequence[Message]:
    answer = conversation_pb2.ConverseRequest.ClarificationAnswer(
        clarification_id=things.question, answer="bob's"
    )
    return _own_conversation(conversation_pb2.ConverseRequest(clarification_answer=answer))


def converse_watching(things: Things) -> Sequence[Message]:
    opening = conversation_pb2.ConverseRequest.Open(profile=BOB, turn_id=things.turn)
    return [conversation_pb2.ConverseRequest(open=opening)]


def converse_repeating(things: Things) -> Sequence[Message]:
    message = conversation_pb2.ConverseRequest.UserMessage(message_id=things.message, text="hi")
    return _own_conversation(conversation_pb2.ConverseRequest(user_message=message))


def turn(things: Things) -> Message:
    return turn_pb2.StartTurnRequest(
        turn_id=f"bob-{things.turn}",
        profile=BOB,
        session_id=things.session,
        parts=[MessagePart(text="hi")],
        origin=Origin(platform="cli"),
    )


def memory(things: Things) -> Message:
    operation = memory_pb2.MemoryOperation(action=memory_pb2.MEMORY_ACTION_ADD, content="Mine.")
    return memory_pb2.ApplyMemoryRequest(
        request_id=things.change,
        profile=BOB,
        target=memory_pb2.MEMORY_TARGET_USER,
        operations=[operation],
    )


def decision(things: Things) -> Message:
    return approval_pb2.ResolveApprovalRequest(
        approval_id=things.approval,
        profile=BOB,
        decision=turn_event_pb2.APPROVAL_DECISION_ALWAYS,
        decided_by="bob",
    )


def answer(things: Things) -> Message:
    return approval_pb2.AnswerClarificationRequest(
        clarification_id=things.question, profile=BOB, answer="bob's", answered_by="bob"
    )


def budget(things: Things) -> Message:
    return usage_pb2.SetBudgetRequest(
        profile=BOB,
        scope=usage_pb2.BUDGET_SCOPE_SESSION,
        scope_id=things.session,
        limit=usage_pb2.BudgetAmount(tokens=5),
    )


def sandbox(things: Things) -> Message:
    return sandbox_pb2.AcquireSandboxRequest(
        request_id=things.request,
        profile=BOB,
        session_id=things.session,
        workspace_id=things.workspace,
    )


def sandbox_again(things: Things) -> Message:
    return sandbox_pb2.AcquireSandboxRequest(
        request_id=things.request,
        profile=BOB,
        session_id=things.session,
        earlier_workspace_id=things.workspace,
    )


def delivery(things: Things) -> Message:
    to = Origin(platform="cli", chat_id=things.session)
    return delivery_pb2.DeliverRequest(
        delivery_id=f"bob-{things.delivery}", profile=BOB, destination=to, text="hi"
    )


def job(things: Things) -> Message:
    made = job_pb2.Job(job_id=things.job, schedule="every 24 hours", prompt="hi")
    return job_pb2.CreateJobRequest(job=made, profile=BOB)


def job_file(_: Things) -> Message:
    text = '[{"id": "of-bob", "prompt": "hi", "schedule": "every 24 hours"}]'
    return job_file_pb2.ImportJobsRequest(profile=BOB, document=text.encode())


def job_change(things: Things) -> Message:
    return job_pb2.UpdateJobRequest(
        job=job_pb2.Job(job_id=things.job, prompt="hi"),
        profile=BOB,
        update_mask=FieldMask(paths=["prompt"]),
    )
