/** The control plane's call on its backups, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import type { MessageType } from "@bufbuild/protobuf";
import { Timestamp, wireMessage, wireService } from "../../machine/link/wire.ts";
import type { CallTime } from "../account/call_time.ts";

export interface ShownBackup {
  readonly time?: CallTime;
  readonly contents: bigint;
  /** Contents that it lacks. */
  readonly missing: bigint;
  /** For administrators. */
  readonly place: string;
}

export interface ShownFailure {
  readonly time?: CallTime;
  /** For administrators, as the reason. */
  readonly place: string;
  readonly reason: string;
}

export interface BackupCalls {
  getLastBackup(request: object): Promise<{ readonly made?: ShownBackup; readonly failed?: ShownFailure }>;
}

const PACKAGE = "svc.app.v1";

const Made = wireMessage(`${PACKAGE}.MadeBackup`, {
  time: [1, Timestamp as MessageType],
  contents: [2, "uint64"],
  missing: [3, "uint64"],
  place: [4, "string"],
});
const Failed = wireMessage(`${PACKAGE}.FailedBackup`, {
  time: [1, Timestamp as MessageType],
  place: [2, "string"],
  reason: [3, "string"],
});

const BackupService = wireService(`${PACKAGE}.BackupService`, {
  GetLastBackup: [
    wireMessage(`${PACKAGE}.GetLastBackupRequest`, {}),
    wireMessage(`${PACKAGE}.GetLastBackupResponse`, { made: [1, Made], failed: [2, Failed] }),
  ],
});

export function backupCalls(transport: Transport): BackupCalls {
  return createPromiseClient(BackupService, transport) as unknown as BackupCalls;
}
