"""The ledger on SQLite: one writer, readers beside it, the folder's lock."""

from collections.abc import Mapping
from pathlib import Path

import anyio

from crossclaw.ledger import operations
from crossclaw.ledger.agreed import AgreeTool, SeeTools
from crossclaw.ledger.approvals import (
    AnswerApproval,
    AskApproval,
    ExpireApproval,
    PutGrants,
    RevokeGrant,
)
from crossclaw.ledger.attention import Dismiss, Resend
from crossclaw.ledger.channels import (
    ChangeHeard,
    DecidePairing,
    EditWaiting,
    ForgetHeard,
    LearnFate,
    RememberHeard,
    RemovePaired,
    RequestPairing,
    SaveCursor,
    WithdrawWaiting,
)
from crossclaw.ledger.forking import ForkSession
from crossclaw.ledger.imports import BeginImport, ImportEntries
from crossclaw.ledger.jobs import (
    DeleteJob,
    MoveJob,
    PutJob,
    SettleTick,
    SwitchOffJob,
    SwitchOffJobs,
    TakeTick,
)
from crossclaw.ledger.media import DescribeMedia, DropMedia, KeepMedia
from crossclaw.ledger.monitoring import MonitoringReads
from crossclaw.ledger.pieces import (
    BeginPreview,
    DropPreview,
    MarkDelivered,
    NotePreview,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from crossclaw.ledger.sqlite import (
    agreed_tools,
    approvals,
    attention,
    channels,
    chores,
    credentials,
    entries,
    exchanges,
    forking,
    imports,
    jobs,
    media,
    memory,
    outbox,
    pieces,
    previews,
    queue,
    recovering,
    runs,
    sessions,
    spawns,
    waiting,
    waits,
)
from crossclaw.ledger.sqlite.damage import met
from crossclaw.ledger.sqlite.errors import READ_TROUBLE, explain
from crossclaw.ledger.sqlite.monitoring import SqliteMonitoring
from crossclaw.ledger.sqlite.reads import SqliteReads
from crossclaw.ledger.sqlite.store import FolderLock, merge_log, open_writer
from crossclaw.ledger.sqlite.writer import OpHandler, SqliteWriter
from crossclaw.ledger.writing import LedgerWrites

HANDLERS: dict[type, OpHandler] = {
    operations.EnsureSession: sessions.ensure_session,
    operations.PatchSession: sessions.patch_session,
    operations.ResetSession: sessions.reset_session,
    operations.DeleteSession: sessions.delete_session,
    operations.ArchiveSession: sessions.archive_session,
    operations.UnarchiveSession: sessions.unarchive_session,
    operations.Submit: runs.submit,
    operations.Claim: queue.claim,
    operations.SetAsideDamaged: recovering.set_aside_damaged,
    operations.Join: queue.join,
    operations.Append: entries.append,
    operations.Inject: entries.inject,
    operations.PinEntry: memory.pin_entry,
    operations.EndRun: runs.end_run,
    operations.EndOpenRun: runs.end_open_run,
    operations.ReleaseRun: runs.release_run,
    operations.Recover: recovering.recover,
    operations.NoteUptime: recovering.note_uptime,
    operations.StartTool: runs.start_tool,
    operations.Reserve: runs.reserve,
    operations.Spend: runs.spend,
    operations.BeginWait: waits.begin_wait,
    operations.EndWait: waits.end_wait,
    operations.PutExchange: exchanges.put_exchange,
    operations.SetExchange: exchanges.set_exchange,
    operations.PutSpawn: spawns.put_spawn,
    operations.SetSpawn: spawns.set_spawn,
    operations.PutDelivery: outbox.put_delivery,
    operations.TakeDelivery: outbox.take_delivery,
    operations.SettleDelivery: outbox.settle_delivery,
    PutJob: jobs.put_job,
    SwitchOffJob: jobs.switch_off_job,
    SwitchOffJobs: jobs.switch_off_jobs,
    DeleteJob: jobs.delete_job,
    TakeTick: jobs.take_tick,
    MoveJob: jobs.move_job,
    SettleTick: jobs.settle_tick,
    BeginImport: imports.begin_import,
    ImportEntries: imports.import_entries,
    operations.ArmTimer: chores.arm_timer,
    operations.TakeTimer: chores.take_timer,
    operations.MarkCompressed: chores.mark_compressed,
    operations.MarkExported: chores.mark_exported,
    operations.PutCredential: credentials.put_credential,
    operations.DeleteCredential: credentials.delete_credential,
    operations.Audit: chores.write_audit,
    operations.PruneDedupe: chores.prune_dedupe,
    KeepMedia: media.keep_media,
    DropMedia: media.drop_media,
    DescribeMedia: media.describe_media,
    SeeTools: agreed_tools.see_tools,
    AgreeTool: agreed_tools.agree_tool,
    LearnFate: channels.learn_fate,
    SaveCursor: channels.save_cursor,
    Dismiss: attention.dismiss,
    Resend: attention.resend,
    ForkSession: forking.fork_session,
    AskApproval: approvals.ask_approval,
    AnswerApproval: approvals.answer_approval,
    ExpireApproval: approvals.expire_approval,
    PutGrants: approvals.put_grants,
    RevokeGrant: approvals.revoke_grant,
    SplitDelivery: pieces.split_delivery,
    TakePiece: pieces.take_piece,
    SettlePiece: pieces.settle_piece,
    MarkDelivered: pieces.mark_delivered,
    BeginPreview: previews.begin_preview,
    NotePreview: previews.note_preview,
    DropPreview: previews.drop_preview,
    RequestPairing: channels.request_pairing,
    DecidePairing: channels.decide_pairing,
    RemovePaired: channels.remove_paired,
    RememberHeard: channels.remember_heard,
    ForgetHeard: channels.forget_heard,
    ChangeHeard: waiting.change_heard,
    EditWaiting: waiting.edit_waiting,
    WithdrawWaiting: waiting.withdraw_waiting,
    operations.PassTime: chores.pass_time,
}


class SqliteLedger(LedgerWrites, SqliteReads):
    """A ledger in a SQLite file. Open it inside an event loop. `inline` commits in the caller's
    task, for virtual time."""

    gateways = None
    trouble = READ_TROUBLE
    explain = staticmethod(explain)

    def __init__(self, path: Path, *, inline: bool = False) -> None:
        self._lock = FolderLock(path.parent)
        try:
            db = open_writer(path)
            super().__init__(path, inline=inline)
        except BaseException:
            self._lock.close()
            raise
        self.shared = False
        self.begin_writing(SqliteWriter(db, HANDLERS, inline=inline), inline=inline)
        self.monitoring: MonitoringReads = SqliteMonitoring(self.scan)

    def unreadable(self) -> Mapping[str, int]:
        return met(str(self._reader.filename))

    async def close(self) -> None:
        await self.end_writing()
        self.close_readers()
        if self._inline:
            merge_log(self._path)
        else:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(merge_log, self._path)
        self._lock.close()
